// Checkpoints: all or nothing.
#include "framework/train/checkpoint.h"

#include "framework/train/step.h"
#include "tests/support/tiny_parts.h"

namespace attnlab::checkpoint_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using testing::clouds;
using ::testing::HasSubstr;
using testing::message_of;
using testing::tiny_options;
using testing::tiny_run;

/// A run with all that a checkpoint can hold.
struct Made {
  BuiltRun run = tiny_run(clouds(), [] {
    TrainOptions options = tiny_options();
    options.average.decay = 0.5;
    return options;
  }());
  Optimizer optimizer = make_optimizer(run);
  NamedTensors carried{{"memory", at::ones({8, 3})}};

  CheckpointParts parts() { return {modules_of(run), optimizer, carried}; }
};

const FileOwner kOwner{"0123456789abcdef", 3};

class Checkpoints : public ::testing::Test {
 protected:
  /// Writes a checkpoint after a step. @returns its path.
  std::string written(const std::string& name = "checkpoint.safetensors") {
    const Batch batch{{{"x", at::ones({8, 4})}, {"class", at::ones({8}, at::kLong)}}, 8};
    backward(made_.run, batch);
    made_.optimizer.step();
    position_.step = 1;
    position_.units = 8;
    position_.epoch_loss = 0.1;
    const std::string path = folder_ / name;
    write_checkpoint(path, made_.parts(), position_, kOwner);
    return path;
  }

  /// Expects that reading throws, and changes nothing.
  std::string refusal(const std::string& path, const FileOwner& owner = kOwner) {
    Made other;
    const Tensor before = other.run.model->parameters()[0].clone();
    std::string message =
        message_of<DataError>([&] { read_checkpoint(path, other.parts(), owner); });
    EXPECT_TRUE(other.run.model->parameters()[0].equal(before));
    EXPECT_EQ(other.optimizer.steps(), 0);
    EXPECT_TRUE(other.carried.at("memory").equal(at::ones({8, 3})));
    return message;
  }

  testing::TempFolder folder_;
  Made made_;
  Position position_;
};

TEST_F(Checkpoints, HoldModulesMeansOptimiserWhatIsCarriedAndPosition) {
  const std::string path = written();
  Made other;
  other.carried = {};
  const Position position = read_checkpoint(path, other.parts(), kOwner);
  EXPECT_EQ(position.step, 1);
  EXPECT_EQ(position.units, 8);
  EXPECT_EQ(position.epoch_loss, 0.1) << "exactly";
  EXPECT_EQ(other.optimizer.steps(), 1);
  EXPECT_TRUE(other.carried.at("memory").equal(at::ones({8, 3})));
  const auto tensors = [](const Made& made) {
    std::vector<Tensor> all = made.run.model->parameters();
    for (const Tensor& mean : made.run.average_model->parameters()) all.push_back(mean);
    return all;
  };
  for (std::size_t i = 0; i < tensors(made_).size(); ++i) {
    EXPECT_TRUE(tensors(made_)[i].equal(tensors(other)[i])) << i;
  }
}

TEST_F(Checkpoints, RefuseAnotherConfiguration) {
  EXPECT_THAT(refusal(written(), {"another", 3}),
              mentions("another configuration", "hash 0123456789abcdef"));
}

TEST_F(Checkpoints, RefuseAnotherSeedWhereTheySayWhichTheyAreOf) {
  const std::string path = written();
  EXPECT_THAT(refusal(path, {kOwner.hash, 4}), mentions("run of seed 3", "has seed 4"));
  TensorFile file = read_safetensors(path);  // of an earlier version
  file.metadata.erase("seed");
  file.metadata.erase("checksum");
  write_safetensors(folder_ / "earlier", file);
  Made other;
  EXPECT_EQ(read_checkpoint(folder_ / "earlier", other.parts(), {kOwner.hash, 4}).step, 1);
}

TEST_F(Checkpoints, NameEveryTensorThatDoesNotFit) {
  TensorFile file = read_safetensors(written());
  TensorFile changed;
  changed.metadata = file.metadata;
  changed.metadata.erase("checksum");
  for (const auto& [name, tensor] : file.tensors) {
    if (name != "model.bias") changed.tensors.set(name, tensor);
  }
  changed.tensors.set("model.weight", at::zeros({2, 5}));
  changed.tensors.set("model.extra", at::zeros({1}));
  write_safetensors(folder_ / "changed", changed);
  EXPECT_THAT(refusal(folder_ / "changed"),
              AllOf(HasSubstr("does not fit the model: "), HasSubstr("bias is missing"),
                    HasSubstr("weight is [2, 5] float32, expected [2, 4] float32"),
                    HasSubstr("extra is unknown")));
}

TEST_F(Checkpoints, RefuseAnOptimiserOfOtherParameters) {
  TensorFile file = read_safetensors(written());
  file.tensors.set("optimizer.exp_avg.weight", at::zeros({3}));
  file.metadata.erase("checksum");
  write_safetensors(folder_ / "changed", file);
  EXPECT_THAT(refusal(folder_ / "changed"), HasSubstr("exp_avg.weight: [3] float32"));
}

TEST_F(Checkpoints, NoticeOneFlippedBitOfATensorAndOfAPosition) {
  TensorFile file = read_safetensors(written());
  Tensor bias = file.tensors.at("model.bias").clone();
  static_cast<std::uint8_t*>(bias.data_ptr())[0] ^= 1U;
  TensorFile flipped = file;
  flipped.tensors.set("model.bias", bias);
  write_safetensors(folder_ / "flipped", flipped);
  EXPECT_THAT(refusal(folder_ / "flipped"), HasSubstr("does not fit its checksum"));
  file.metadata["step"] = "2";
  write_safetensors(folder_ / "moved", file);
  EXPECT_THAT(refusal(folder_ / "moved"), HasSubstr("does not fit its checksum"));
}

TEST_F(Checkpoints, NoticeLinesThatAreGoneOrChanged) {
  folder_.write("metrics.jsonl", "{\"step\":1}\n{\"step\":2}\n");
  position_.metrics_bytes = 11;
  const std::string path = written();
  Made other;
  EXPECT_EQ(read_checkpoint(path, other.parts(), kOwner).step, 1);
  folder_.write("metrics.jsonl", "{\"step\":1}\n");
  Made shorter;  // what comes after the checkpoint does not count
  EXPECT_EQ(read_checkpoint(path, shorter.parts(), kOwner).step, 1);
  for (const char* text : {"{\"step\":7}\n", "{}\n"}) {
    folder_.write("metrics.jsonl", text);
    EXPECT_THAT(refusal(path), mentions("metrics.jsonl", "missing or was changed"));
  }
  std::filesystem::remove(folder_ / "metrics.jsonl");
  EXPECT_THAT(refusal(path), mentions("metrics.jsonl", "missing or was changed"));
}

TEST_F(Checkpoints, RefuseFilesThatAreNone) {
  write_safetensors(folder_ / "weights", {{{"model.weight", at::zeros({2, 4})}}, {}});
  EXPECT_THAT(refusal(folder_ / "weights"), HasSubstr("not a checkpoint"));
  TensorFile file = read_safetensors(written());
  file.metadata["step"] = "five";
  file.metadata.erase("checksum");
  write_safetensors(folder_ / "damaged", file);
  EXPECT_THAT(refusal(folder_ / "damaged"), HasSubstr("damaged: step is 'five'"));
  for (const auto& [name, value] :
       {std::pair{"step", "-1"}, std::pair{"units", "9223372036854775807"},
        std::pair{"metrics_bytes", "-4"}, std::pair{"seconds", "-0x1p+0"},
        std::pair{"seconds", "inf"}, std::pair{"processor_seconds", "-1"},
        std::pair{"loss_scale", "0"}, std::pair{"loss_scale", "inf"},
        std::pair{"loss_scale_steps", "-1"}}) {
    file = read_safetensors(written());
    file.metadata[name] = value;
    file.metadata.erase("checksum");
    write_safetensors(folder_ / "damaged", file);
    EXPECT_THAT(refusal(folder_ / "damaged"),
                HasSubstr(std::string("damaged: ") + name + " is '" + value + "'"));
  }
  file = read_safetensors(written());
  file.tensors.set("optimizer.step.weight", at::scalar_tensor(-3, at::kLong));
  file.metadata.erase("checksum");
  write_safetensors(folder_ / "damaged", file);
  EXPECT_THAT(refusal(folder_ / "damaged"), HasSubstr("step.weight: -3 updates"));
  const std::string bytes = read_text(written());
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, bytes.size() / 2}) {
    folder_.write("cut", bytes.substr(0, size));
    refusal(folder_ / "cut");
  }
}

}  // namespace
}  // namespace attnlab::checkpoint_test
