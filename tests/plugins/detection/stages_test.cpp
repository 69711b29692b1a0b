// Weights of torchvision's and timm's Swin V2 by the maps of configs/, and IA-DETR's two stages as
// their files say, on small scenes.

#include "framework/experiment/experiment.h"
#include "framework/nn/backbones/resnet.h"
#include "framework/nn/backbones/swin.h"
#include "framework/train/initialise.h"
#include "framework/train/parameter_groups.h"
#include "tests/plugins/detection/small_sets.h"
#include "tests/support/plugins.h"
#include "tests/support/tiny_run.h"

namespace attnlab::stages_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::StopAfter;

const std::string kConfigs = ATTNLAB_TEST_CONFIGS;
constexpr std::int64_t kSeed = 3;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

/// torchvision's name of a parameter of a Swin.
std::string published(const std::string& own) {
  std::string name = replaced(own, "embedding.patches.", "features.0.0.");
  name = replaced(name, "embedding.norm.", "features.0.2.");
  for (int s = 0; s < 4; ++s) {
    const std::string stage = "stage" + std::to_string(s) + ".";
    name = replaced(name, stage + "merging.", "features." + std::to_string(2 * s) + ".");
    name = replaced(name, stage + "block", "features." + std::to_string(2 * s + 1) + ".");
  }
  for (const auto& [from, to] : {std::pair{".attention_norm.", ".norm1."},
                                 {".mlp_norm.", ".norm2."},
                                 {".attention.attention.scale.log_scale", ".attn.logit_scale"},
                                 {".attention.bias.in.", ".attn.cpb_mlp.0."},
                                 {".attention.bias.out.", ".attn.cpb_mlp.2."},
                                 {".attention.qkv.", ".attn.qkv."},
                                 {".attention.output.", ".attn.proj."},
                                 {".mlp.in.", ".mlp.0."},
                                 {".mlp.out.", ".mlp.3."}}) {
    name = replaced(name, from, to);
  }
  return name;
}

/// Whether the public script of IA-DETR has weight decay of a parameter: of all whose names there
/// have none of some words in them. (The norm at the input is called input_proj.0.1.)
bool decays_there(const std::string& own) {
  if (own == "input_norm.weight") return true;
  const bool first_boxes = own.starts_with("reference."), level = own == "level";
  const bool norm = own.find("norm.") != std::string::npos;
  const bool bias = own.ends_with("bias"), scale = own.ends_with(".log_scale");
  // Its names of these MLPs: cpb_mlp of the windows, cpb_mlp1 and cpb_mlp2 of the boxes.
  const bool gives_bias = own.find(".bias.") != std::string::npos;
  return !first_boxes && !level && !norm && !bias && !scale && !gives_bias;
}

/// All that torchvision would save of a Swin of the size nano, each tensor of other numbers.
NamedTensors saved_by_torchvision() {
  at::manual_seed(11);
  Swin swin(swin_sizes("nano"), swin_attention());
  NamedTensors saved;
  for (const auto& item : swin.named_parameters()) {
    Tensor numbers = at::randn_like(item.value()) * 0.1;
    if (item.key().ends_with("log_scale")) numbers = numbers.view({-1, 1, 1});
    saved.set(published(item.key()), numbers);
  }
  saved.set("features.1.0.attn.relative_coords_table", at::zeros({1, 15, 15, 2}));
  saved.set("features.1.0.attn.relative_position_index", at::zeros({4096}, at::kLong));
  saved.set("head.weight", at::zeros({1000, swin.out_channels()}));
  saved.set("head.bias", at::zeros({1000}));
  return saved;
}

/// The same as timm saves it: no bias of keys, and so the other two by themselves.
NamedTensors as_timm_saves(const NamedTensors& torchvision) {
  NamedTensors saved;
  for (const auto& [name, tensor] : torchvision) {
    std::string own = replaced(name, "features.0.0.", "patch_embed.proj.");
    own = replaced(own, "features.0.2.", "patch_embed.norm.");
    for (int s = 0; s < 4; ++s) {
      const std::string stage = "layers." + std::to_string(s) + ".";
      own = replaced(own, "features." + std::to_string(2 * s + 1) + ".", stage + "blocks.");
      own = replaced(own, "features." + std::to_string(2 * s) + ".", stage + "downsample.");
    }
    own = replaced(replaced(own, ".mlp.0.", ".mlp.fc1."), ".mlp.3.", ".mlp.fc2.");
    own = replaced(own, "head.", "head.fc.");
    if (own.find("relative_") != std::string::npos) continue;
    if (own.ends_with("qkv.bias")) {
      const std::vector<Tensor> parts = tensor.chunk(3);
      saved.set(replaced(own, "qkv.bias", "q_bias"), parts[0].clone());
      saved.set(replaced(own, "qkv.bias", "v_bias"), parts[2].clone());
      continue;
    }
    saved.set(own, tensor);
  }
  return saved;
}

class Stages : public ::testing::Test {
 protected:
  Stages() : saved_(saved_by_torchvision()) {
    testing::write_small_fashion(folder_);
    write_safetensors(folder_ / "swin.safetensors", {saved_, {}});
    // The map by its path: its name is looked up from the working folder, which may be any.
    write_stage("one", "init: {from: " + (folder_ / "swin.safetensors") + ", map: " + kConfigs +
                           "/maps/torchvision_swin_v2.yaml}\n");
    write_stage("two", "init: {experiment: " + (folder_ / "one.yaml") + "}\n");
  }

  /// As published, but for sizes, pictures and the length.
  void write_stage(const std::string& name, const std::string& init) const {
    folder_.write(
        name + ".yaml",
        "schema: 1\nextends: " + kConfigs + "/experiments/paper/ia_detr/ia_detr_stage" +
            (name == "one" ? "1" : "2") + "_voc.yaml\n" + init +
            "model: {swin: nano, window: 4, dim: 8, heads: 2, hidden: 8, depth: 2, queries: 2, "
            "many_queries: 2, bias_hidden: 4, feature_dim: 4}\n"
            "dataset: {use: fashion_scenes, root: " +
            folder_.path() +
            ", train: 8, test: 4, canvas: 32, size: 32, prompt_size: 32, largest_scale: 1}\n"
            "train: {epochs: 1, batch_size: 4, eval_batch_size: 4, workers: 0, threads: 1, "
            "tensorboard: false, schedule: {warmup_steps: 1}}\nseeds: [3]\n");
  }
  Experiment experiment(const std::string& file, std::vector<std::string> changes = {}) const {
    return load_experiment(file, changes, testing::registry().catalogue());
  }
  RunFolder place(const Experiment& experiment) const {
    return RunFolder::of(folder_ / "runs", experiment, kSeed);
  }
  BuiltRun initialised(const Experiment& experiment) const {
    BuiltRun run = build_run(experiment, kSeed, testing::registry());
    initialise(run, place(experiment), testing::registry().catalogue());
    return run;
  }
  NamedTensors trained(const Experiment& experiment) const {
    BuiltRun run = initialised(experiment);
    place(experiment).freeze(experiment, kSeed);
    StopAfter sink;
    EXPECT_EQ(train_run(run, place(experiment), sink, sink.stop).state, RunState::done);
    return read_safetensors(place(experiment).file("checkpoint.safetensors")).tensors;
  }
  /// A Swin for images of 32 pixels that begins with a file's tensors.
  BuiltRun classifier_from(const std::string& weights, const std::string& map) const {
    const std::string file = folder_.write(
        "swin.yaml",
        "schema: 1\nmodel: {use: swin, preset: nano, window: 4}\nattention: {extends: " + kConfigs +
            "/attention/swin_v2.yaml}\ntask: image_classification\n"
            "dataset: {use: synthetic_images, channels: 3, size: 32, train: 8, test: 8}\n"
            "train: {batch_size: 4, workers: 0, threads: 1}\ninit: {from: " +
            (folder_ / weights) + ", map: " + kConfigs + "/maps/" + map +
            ".yaml, into: net, partial: true}\n");
    return initialised(experiment(file));
  }
  static Tensor logits(Model& model, const Tensor& images) {
    const at::NoGradGuard no_gradients;
    model.eval();
    Batch batch;
    batch.fields.set("image", images);
    ForwardPass pass;
    return model.forward(batch, pass).at("logits");
  }
  /// But for their heads.
  static void expect_logits_of(Model& expected, Model& found) {
    const at::NoGradGuard no_gradients;
    for (const char* name : {"head.weight", "head.bias"}) {
      found.named_parameters()[name].copy_(expected.named_parameters()[name]);
    }
    const Tensor images = at::randn({2, 3, 32, 32});
    const Tensor wanted = logits(expected, images);
    EXPECT_GT(wanted.std().item<double>(), 0.01);
    EXPECT_TRUE(at::allclose(logits(found, images), wanted, 1e-5, 1e-5));
  }
  /// Whether a model has what torchvision saved of a part.
  void expect_published(const std::string& own, const Tensor& tensor) const {
    EXPECT_TRUE(tensor.equal(saved_.at(published(own)).view_as(tensor))) << own;
  }

  testing::TempFolder folder_;
  NamedTensors saved_;
};

TEST_F(Stages, SwinTakesAllThatTorchvisionSaved) {
  const BuiltRun run = classifier_from("swin.safetensors", "torchvision_swin_v2");
  std::size_t filled = 0;
  for (const auto& item : run.model->named_parameters()) {
    if (!item.key().starts_with("net.")) continue;
    expect_published(item.key().substr(4), item.value());
    ++filled;
  }
  EXPECT_EQ(filled, saved_.size() - 4) << "all but two tables and the head";
  for (const std::string& name : run.initial_random) {
    EXPECT_TRUE(name.ends_with(".offsets")) << name << ", which is not a table that follows";
  }
}

TEST_F(Stages, SwinTakesAllThatTimmSaved) {
  const NamedTensors timm = as_timm_saves(saved_);
  EXPECT_TRUE(timm.find("layers.2.blocks.1.attn.q_bias") != nullptr);
  EXPECT_TRUE(timm.find("layers.1.downsample.reduction.weight") != nullptr);
  write_safetensors(folder_ / "timm.safetensors", {timm, {}});
  const BuiltRun run = classifier_from("timm.safetensors", "timm_swin_v2");
  EXPECT_THAT(run.initial_unused,
              ::testing::UnorderedElementsAre("head.fc.weight (as net.head.fc.weight)",
                                              "head.fc.bias (as net.head.fc.bias)"));
  for (const std::string& name : run.initial_random) {
    EXPECT_TRUE(name.ends_with(".offsets")) << name << ", which is not a table that follows";
  }
  // The third of keys is in no file of timm's, and in no logit.
  expect_logits_of(*classifier_from("swin.safetensors", "torchvision_swin_v2").model, *run.model);
}

TEST_F(Stages, SwinsAttentionOfConfigsIsTheOneOfItsHeader) {
  const BuiltRun run = classifier_from("swin.safetensors", "torchvision_swin_v2");
  SwinSizes sizes = swin_sizes("nano");
  sizes.window = 4;
  Swin swin(sizes, swin_attention());
  const auto given = run.model->named_parameters();
  const at::NoGradGuard no_gradients;
  for (auto& item : swin.named_parameters()) item.value().copy_(given["net." + item.key()]);
  const Tensor images = at::randn({2, 3, 32, 32});
  const Tensor expected = at::linear(swin.forward({images, {}}).map.mean({2, 3}),
                                     given["head.weight"], given["head.bias"]);
  EXPECT_TRUE(at::allclose(logits(*run.model, images), expected, 1e-5, 1e-5));
}

TEST_F(Stages, ABackboneOfThreeStagesKeepsItsNormAlone) {
  const BuiltRun run = initialised(experiment(folder_ / "one.yaml"));
  for (const auto& item : run.model->named_parameters()) {
    if (!item.key().starts_with("backbone.")) continue;
    const std::string own = item.key().substr(9);
    if (own.starts_with("norm.")) {
      EXPECT_TRUE(item.value().eq(own == "norm.weight" ? 1 : 0).all().item<bool>()) << own;
    } else {
      expect_published(own, item.value());
    }
  }
  EXPECT_THAT(message_of<DataError>(
                  [&] { initialised(experiment(folder_ / "one.yaml", {"init.fresh=[]"})); }),
              AllOf(Not(HasSubstr("or set init.partial")),
                    mentions("backbone.norm.weight is [256] float32", "[128] float32",
                             "init.fresh: [backbone.norm.weight]")));
}

TEST_F(Stages, AResNetTakesTheStagesThatItHas) {
  // torchvision's names are its own: no map. A fourth stage and the head are left out.
  at::manual_seed(12);
  ResNet resnet(ResNetOptions{.depth = 18, .channels = 3, .stages = 3});
  NamedTensors saved;
  for (const auto& item : resnet.named_parameters()) {
    saved.set(item.key(), at::randn_like(item.value()) * 0.1);
  }
  for (const auto& item : resnet.named_buffers()) {
    saved.set(item.key(), at::rand_like(item.value()) + 0.5);
  }
  saved.set("bn1.num_batches_tracked", at::zeros({}, at::kLong));
  saved.set("layer4.0.conv1.weight", at::zeros({512, 256, 1, 1}));
  saved.set("fc.weight", at::zeros({1000, 512}));
  write_safetensors(folder_ / "resnet18.safetensors", {saved, {}});
  folder_.write("resnet.yaml",
                "schema: 1\nextends: one.yaml\nmodel: {backbone: resnet, resnet: 18}\n"
                "init: {from: " +
                    (folder_ / "resnet18.safetensors") + ", map: \"\", fresh: []}\n");
  const BuiltRun run = initialised(experiment(folder_ / "resnet.yaml"));
  std::size_t filled = 0;
  const auto expect_saved = [&](const auto& items) {
    for (const auto& item : items) {
      if (!item.key().starts_with("backbone.")) continue;
      EXPECT_TRUE(item.value().equal(saved.at(item.key().substr(9)))) << item.key();
      ++filled;
    }
  };
  expect_saved(run.model->named_parameters());
  expect_saved(run.model->named_buffers());
  EXPECT_EQ(filled, saved.size() - 3);
}

TEST_F(Stages, TheSecondBeginsWithTheRunOfTheFirst) {
  const Experiment one = experiment(folder_ / "one.yaml"), two = experiment(folder_ / "two.yaml");
  const NamedTensors first = trained(one);
  for (const auto& [name, tensor] : first) {
    const std::string before = "model.backbone.";
    if (!name.starts_with(before) || name.starts_with(before + "norm.") ||
        name.ends_with(".offsets")) {
      continue;
    }
    expect_published(name.substr(before.size()), tensor);  // frozen from the first step on
  }
  const BuiltRun run = initialised(two);
  EXPECT_EQ(run.initial_file, place(one).file("checkpoint.safetensors"));
  int taken = 0;
  for (const auto& item : run.model->named_parameters()) {
    const Tensor* saved = first.find("model." + item.key());
    if (saved == nullptr) {
      EXPECT_TRUE(item.key().starts_with("proposals.") || item.key().starts_with("place"))
          << item.key();
      continue;
    }
    EXPECT_TRUE(item.value().equal(*saved)) << item.key();
    ++taken;
  }
  EXPECT_GT(taken, 100);
  const NamedTensors second = trained(two);
  const std::string last = "model.backbone.stage2.block1.mlp.in.weight";
  EXPECT_FALSE(second.at(last).equal(first.at(last))) << "the backbone learns in stage two";
}

TEST_F(Stages, HaveTheParameterGroupsOfThePublicScript) {
  for (const std::string stage : {"one", "two"}) {
    const Experiment experiment = this->experiment(folder_ / (stage + ".yaml"));
    const BuiltRun run = build_run(experiment, kSeed, testing::registry());
    const OptimizerOptions& options = experiment.train.optimizer;
    std::vector<OptimizedParameter> all = trained_parameters(*run.model);
    apply_groups(all, options);  // refuses a pattern that fits nothing
    std::map<std::string, OptimizedParameter> found;
    for (const OptimizedParameter& one : all) {
      const double used = one.decays ? one.weight_decay.value_or(options.weight_decay) : 0;
      EXPECT_EQ(used, decays_there(one.name) ? 0.05 : 0) << stage << ", " << one.name;
      const bool backbone = one.name.starts_with("backbone.");
      const std::pair<std::int64_t, std::int64_t> epochs = {one.first_epoch, one.end_epoch};
      const std::pair<std::int64_t, std::int64_t> of_stage =
          stage == "one" ? std::pair(30, -1) : std::pair(0, 2);
      EXPECT_EQ(epochs, backbone ? of_stage : std::pair(std::int64_t{0}, std::int64_t{-1}))
          << stage << ", " << one.name;
      if (!backbone) {
        EXPECT_EQ(one.lr_scale, one.name.starts_with("reference.") ? 0.1 : 1)
            << stage << ", " << one.name;
      }
      found.emplace(one.name, one);
    }
    // Those that matter are there under these names.
    const std::string block = "backbone.stage2.block1.attention.";
    for (const std::string& name : {block + "bias.in.weight", block + "bias.out.weight",
                                    std::string("decoder.layer0.bias.x.in_weight"),
                                    std::string("decoder.layer1.bias.y.out_weight")}) {
      ASSERT_EQ(found.count(name), 1U) << name;
      EXPECT_TRUE(found.at(name).decays) << name << ": by itself, as a matrix";
    }
    EXPECT_EQ(found.count("reference.weight"), stage == "one" ? 1U : 0U);
    // Layers are slowed down alike, whatever group they are in.
    EXPECT_EQ(found.at(block + "bias.in.weight").lr_scale, found.at(block + "qkv.weight").lr_scale);
  }
}

TEST_F(Stages, TheBackboneIsFrozenAgainAfterTheSecondEpochOfStageTwo) {
  trained(experiment(folder_ / "one.yaml"));
  const auto after = [&](int epochs) {
    return trained(experiment(folder_ / "two.yaml", {"train.epochs=" + std::to_string(epochs)}));
  };
  const NamedTensors one = after(1), two = after(2), three = after(3);
  const auto same = [](const NamedTensors& a, const NamedTensors& b, const std::string& part) {
    bool equal = true;
    for (const auto& [name, tensor] : a) {
      if (name.starts_with("model." + part)) equal = equal && tensor.equal(b.at(name));
    }
    return equal;
  };
  EXPECT_FALSE(same(one, two, "backbone."));
  EXPECT_TRUE(same(two, three, "backbone."));
  EXPECT_FALSE(same(two, three, "decoder")) << "what lies behind goes on learning";
}

}  // namespace
}  // namespace attnlab::stages_test
