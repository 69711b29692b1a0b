// Runs trained together, in this process: the numbers that each has alone.
#include "framework/train/ensemble.h"
#include "framework/base/json.h"

#include <atomic>
#include <filesystem>
#include <optional>

#include "framework/config/compose.h"
#include "tests/support/plugins.h"
#include "tests/support/tiny_run.h"

namespace attnlab::ensemble_test {
namespace {

using nlohmann::json;

const std::string kToy = R"(schema: 1
model: toy_transformer
attention: qknorm
task: sequence_classification
dataset: {use: spurious_retrieval, train: 40, test: 20, tokens: 4, key_dim: 3, classes: 3, data_seed: 0}
train:
  {epochs: 2, batch_size: 16, drop_last: false, threads: 1, workers: 0, tensorboard: false, log_every: 1,
   optimizer: {lr: 1.0e-3, weight_decay: 0}, schedule: {shape: constant}}
)";

class EnsembleRuns : public testing::TinyRuns {
 protected:
  Member member(const std::string& folder, std::int64_t seed) const {
    const Experiment experiment =
        resolve_experiment(parse_yaml(kToy, "toy.yaml"), testing::registry().catalogue(), "toy");
    return {build_run(experiment, seed, testing::registry()), place(folder)};
  }
  void together(const std::vector<std::int64_t>& seeds, std::int64_t stop_after = -1) const {
    std::vector<Member> members;
    for (const std::int64_t seed : seeds) {
      members.push_back(member("together-" + std::to_string(seed), seed));
      members.back().run.together = static_cast<std::int64_t>(seeds.size());
    }
    testing::StopAfter sink(stop_after);
    train_ensemble(members, testing::registry(), sink, sink.stop);
  }
  void expect_close(const std::string& one, const std::string& other) const {
    const std::vector<json> a = lines(one, "train"), b = lines(other, "train");
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_NEAR(a[i].at("loss").get<double>(), b[i].at("loss").get<double>(), 1e-4) << i;
    }
    const TensorFile first = checkpoint(one), second = checkpoint(other);
    for (const auto& [name, tensor] : first.tensors) {
      if (name.rfind("model.", 0) != 0) continue;
      EXPECT_LT((tensor - second.tensors.at(name)).abs().max().item<double>(), 1e-3) << name;
    }
    EXPECT_EQ(first.metadata.at("units"), second.metadata.at("units"));
  }
};

TEST_F(EnsembleRuns, HaveTheNumbersOfRunsAlone) {
  together({0, 1});
  for (const std::int64_t seed : {0, 1}) {
    const std::string name = std::to_string(seed);
    Member alone = member("alone-" + name, seed);
    ASSERT_EQ(train(std::move(alone.run), "alone-" + name).state, RunState::done);
    EXPECT_EQ(place("together-" + name).status().state, RunState::done);
    expect_close("alone-" + name, "together-" + name);
  }
}

/// Looks, when the first member has been evaluated, for the checkpoint of another.
class AtTheFirstEvaluation final : public ProgressSink {
 public:
  explicit AtTheFirstEvaluation(std::string file) : file_(std::move(file)) {}
  void report(const ProgressEvent& event) override {
    if (event.kind != ProgressEvent::Kind::evaluation || steps_there) return;
    std::error_code none;
    const bool there = std::filesystem::exists(file_, none);
    steps_there = there ? read_safetensors(file_).metadata.at("step") : "none";
  }
  void say(const std::string&) override {}

  std::optional<std::string> steps_there;

 private:
  std::string file_;
};

// A process that is asked to end does not wait for an evaluation: it must cost no member its steps.
TEST_F(EnsembleRuns, HaveAllSavedTheirStepsBeforeOneIsEvaluated) {
  std::vector<Member> members;
  for (const std::int64_t seed : {0, 1}) {
    members.push_back(member(std::to_string(seed), seed));
    members.back().run.together = 2;
  }
  AtTheFirstEvaluation sink(place("1").file("checkpoint.safetensors"));
  const std::atomic<bool> stop{false};
  train_ensemble(members, testing::registry(), sink, stop);
  EXPECT_EQ(sink.steps_there, "3") << "40 examples in batches of 16";
}

TEST_F(EnsembleRuns, GoOnAloneFromWhereTheyWereStopped) {
  together({0, 1}, 2);
  EXPECT_EQ(place("together-1").status().state, RunState::interrupted);
  train(member("together-1", 1).run, "together-1");
  Member alone = member("alone-1", 1);
  train(std::move(alone.run), "alone-1");
  expect_close("alone-1", "together-1");
}

}  // namespace
}  // namespace attnlab::ensemble_test
