// Weights of others: a trained ViT gives the logits of a plain forward; timm's names; new heads.
#include <cstdlib>
#include <filesystem>

#include "framework/base/json.h"
#include "framework/config/compose.h"
#include "framework/data/formats/safetensors.h"
#include "framework/train/environment.h"
#include "framework/train/initialise.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace attnlab::pretrained_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

std::string map_named(const std::string& name) {
  return std::string(ATTNLAB_TEST_CONFIGS) + "/maps/" + name + ".yaml";
}

class Pretrained : public ::testing::Test {
 protected:
  /// A run of a model on made-up images that begins as `init` says.
  BuiltRun initialised(const std::string& model, const std::string& data, const std::string& init,
                       const std::string& attention = "{use: standard}") {
    const std::string file =
        folder_.write("experiment.yaml",
                      "schema: 1\nmodel: {use: vit, " + model + "}\nattention: " + attention +
                          "\ntask: image_classification\ndataset: {use: synthetic_images, " + data +
                          "}\ntrain: {batch_size: 4, workers: 0}\ninit: {" + init + "}\n");
    const Experiment experiment = load_experiment(file, {}, testing::registry().catalogue());
    BuiltRun run = build_run(experiment, 0, testing::registry());
    initialise(run, RunFolder(folder_ / "run"), testing::registry().catalogue());
    run.model->eval();
    return run;
  }

  testing::TempFolder folder_;
};

constexpr const char* kMnistModel =
    "patch_size: 7, dim: 64, depth: 6, heads: 8, mlp_ratio: 2, qkv_bias: false, norm_eps: 1.0e-5, "
    "final_norm: false, head_hidden: 128";

std::string mnist_weights() {
  const char* data = std::getenv("ATTNLAB_DATA");
  return std::string(data == nullptr ? "" : data) + "/weights/vit_mnist.safetensors";
}

Tensor logits(Model& model, const Tensor& images) {
  const at::NoGradGuard no_gradients;
  Batch batch;
  batch.size = images.size(0);
  batch.fields.set("image", images);
  ForwardPass pass;
  return model.forward(batch, pass).at("logits");
}

TEST_F(Pretrained, TrainedVitGivesTheLogitsOfAPlainForward) {
  if (!std::filesystem::exists(mnist_weights())) GTEST_SKIP() << "needs " << mnist_weights();
  const BuiltRun run =
      initialised(kMnistModel, "size: 28, channels: 1, train: 8, test: 8",
                  "from: " + mnist_weights() + ", map: " + map_named("vit_pytorch"),
                  "{use: standard, scale_by: model_dim}");
  Tensor images = at::empty({3, 1, 28, 28});
  for (int i = 0; i < 3; ++i) {
    for (int y = 0; y < 28; ++y) {
      for (int x = 0; x < 28; ++x) {
        images[i][0][y][x] = ((7 * y + 13 * x * (i + 1) + x * y) % 256 / 255.0 - 0.1307) / 0.3081;
      }
    }
  }
  // tests/references/vit_mnist.py, in float64
  const Tensor expected =
      at::tensor({-1.7084972, -1.6884409, -1.8860505, 4.5142276,  -3.6023614, 1.4267309,
                  -2.7064895, -1.9367133, 0.9157303,  -0.0777884, 0.1742969,  -2.3840229,
                  -0.3757885, -0.0750708, 0.2641366,  -2.1808428, -1.9789819, -0.4515687,
                  -1.2599430, 0.6711165,  0.6757485,  -1.7237264, -0.5464408, -0.1637092,
                  -0.5002887, 0.2118464,  0.3856502,  -1.4028730, -0.1184238, 0.1217007})
          .view({3, 10});
  EXPECT_LT((logits(*run.model, images) - expected).abs().max().item<double>(), 1e-5);
  EXPECT_TRUE(run.initial_unused.empty());
  EXPECT_TRUE(run.initial_random.empty());
}

TEST_F(Pretrained, TrainedVitReachesItsAccuracyOnMnist) {
  std::shared_ptr<Dataset> mnist;
  try {
    mnist = testing::make_dataset("idx_images", "{name: mnist}");
  } catch (const DataMissingError&) {
    GTEST_SKIP() << "needs MNIST's four files in $ATTNLAB_DATA/mnist";
  }
  if (!std::filesystem::exists(mnist_weights())) GTEST_SKIP() << "needs " << mnist_weights();
  const BuiltRun run =
      initialised(kMnistModel, "size: 28, channels: 1, train: 8, test: 8",
                  "from: " + mnist_weights() + ", map: " + map_named("vit_pytorch"),
                  "{use: standard, scale_by: model_dim}");
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < mnist->size(Split::test); ++i) {
    const NamedTensors example = mnist->example(Split::test, i, nullptr);
    const Tensor answer = logits(*run.model, example.at("image").unsqueeze(0)).argmax(-1);
    right += answer.item<std::int64_t>() == example.at("class").item<std::int64_t>() ? 1 : 0;
  }
  EXPECT_NEAR(double(right) / double(mnist->size(Split::test)), 0.979, 0.001);
}

constexpr const char* kSmall = "patch_size: 4, dim: 8, depth: 2, heads: 2, layer_scale: 0.1";
constexpr const char* kImages = "size: 16, channels: 3, classes: 4, train: 8, test: 8";

/// A model's tensors by the names of timm, or of DeiT III.
NamedTensors with_timms_names(const Model& model, bool deit_3) {
  std::map<std::string, std::string> names = {{"class_token", "cls_token"},
                                              {"positions", "pos_embed"},
                                              {"patches.weight", "patch_embed.proj.weight"},
                                              {"patches.bias", "patch_embed.proj.bias"}};
  for (const char* layer : {"0", "1"}) {
    const std::string own = "layer" + std::string(layer) + ".",
                      his = "blocks." + std::string(layer) + ".";
    for (const char* end : {"weight", "bias"}) {
      names[own + "attention_norm." + end] = his + "norm1." + end;
      names[own + "attention.qkv." + end] = his + "attn.qkv." + end;
      names[own + "attention.output." + end] = his + "attn.proj." + end;
      names[own + "mlp_norm." + end] = his + "norm2." + end;
      names[own + "mlp.in." + end] = his + "mlp.fc1." + end;
      names[own + "mlp.out." + end] = his + "mlp.fc2." + end;
    }
    names[own + "attention_scale.scale"] = his + (deit_3 ? "gamma_1" : "ls1.gamma");
    names[own + "mlp_scale.scale"] = his + (deit_3 ? "gamma_2" : "ls2.gamma");
  }
  NamedTensors tensors;
  for (const auto& item : model.named_parameters()) {
    const auto found = names.find(item.key());
    tensors.set(found == names.end() ? item.key() : found->second, item.value().detach().clone());
  }
  return tensors;
}

TEST_F(Pretrained, HasTimmsNamesAndDeitsThree) {
  for (const bool deit_3 : {false, true}) {
    DatasetInfo data;
    data.fields = {{"image", {3, 16, 16}, at::kFloat}};
    data.classes = 4;
    at::manual_seed(5);
    const auto source = testing::make_model("vit", data, "{" + std::string(kSmall) + "}");
    for (Tensor& parameter : source->parameters()) parameter.data().normal_();
    const std::string file = folder_ / "timm.safetensors";
    write_safetensors(file, {with_timms_names(*source, deit_3), {}});
    const BuiltRun run =
        initialised(kSmall, kImages, "from: " + file + ", map: " + map_named("timm_vit"));
    for (const auto& item : source->named_parameters()) {
      EXPECT_TRUE(run.model->named_parameters()[item.key()].equal(item.value())) << item.key();
    }
  }
}

TEST_F(Pretrained, KeepsANewHeadAndListsWhatWasNotUsed) {
  DatasetInfo data;
  data.fields = {{"image", {3, 16, 16}, at::kFloat}};
  data.classes = 7;
  const auto source = testing::make_model("vit", data, "{" + std::string(kSmall) + "}");
  NamedTensors tensors = with_timms_names(*source, false);
  const std::string file = folder_ / "timm.safetensors";
  write_safetensors(file, {tensors, {}});
  const std::string init = "from: " + file + ", map: " + map_named("timm_vit");
  EXPECT_THAT(message_of<DataError>([&] { initialised(kSmall, kImages, init); }),
              AllOf(HasSubstr("head.weight is [7, 8] float32, expected [4, 8] float32"),
                    HasSubstr("init.fresh")));
  const BuiltRun run = initialised(kSmall, kImages, init + ", fresh: ['head.*']");
  EXPECT_THAT(run.initial_unused, ElementsAre("head.weight", "head.bias"));
  EXPECT_THAT(run.initial_random, ElementsAre("head.bias", "head.weight"));
  EXPECT_TRUE(run.model->named_parameters()["norm.weight"].equal(
      source->named_parameters()["norm.weight"]));
  const auto listed = nlohmann::json::parse(environment_json(run)).at("init");
  EXPECT_EQ(listed.at("path"), file);
  EXPECT_THAT(listed.at("unused"), ElementsAre("head.weight", "head.bias"));
  EXPECT_THAT(listed.at("random"), ElementsAre("head.bias", "head.weight"));
  tensors.set("dist_token", at::zeros({1, 1, 8}));  // a distilled DeiT has it
  write_safetensors(file, {tensors, {}});
  EXPECT_THAT(
      message_of<DataError>([&] { initialised(kSmall, kImages, init + ", fresh: ['head.*']"); }),
      mentions("dist_token", "fits nowhere"));
  const BuiltRun partial =
      initialised(kSmall, kImages, init + ", fresh: ['head.*'], partial: true");
  EXPECT_THAT(partial.initial_unused, ElementsAre("head.weight", "head.bias", "dist_token"));
}

TEST_F(Pretrained, ResizesPositions) {
  DatasetInfo data;
  data.fields = {{"image", {3, 16, 16}, at::kFloat}};
  data.classes = 4;
  const auto source = testing::make_model("vit", data, "{" + std::string(kSmall) + "}");
  for (const char* form : {"all", "patches"}) {
    const std::string model = std::string(kSmall) + ", positions: " + form;
    const bool all = std::string(form) == "all";
    NamedTensors tensors;
    // A ramp from left to right: interpolation between its columns is linear.
    Tensor positions = at::zeros({1, 16 + (all ? 1 : 0), 8});
    for (int i = 0; i < 16; ++i) positions[0][i + (all ? 1 : 0)] = double(i % 4);
    if (all) positions[0][0] = 99;
    tensors.set("positions", positions);
    const std::string file = folder_ / "positions.safetensors";
    write_safetensors(file, {tensors, {}});
    const BuiltRun run = initialised(model, "size: 32, channels: 3, classes: 4, train: 8, test: 8",
                                     "from: " + file + ", partial: true");
    const Tensor found = run.model->named_parameters()["positions"].detach();
    ASSERT_EQ(found.size(1), 64 + (all ? 1 : 0));
    if (all) {
      EXPECT_EQ(found[0][0][3].item<double>(), 99);
    }
    const Tensor grid = found[0].slice(0, all ? 1 : 0).view({8, 8, 8});
    // At (3 + 1/2) / 2 - 1/2 = 1.25 and at 1.75, by the cubic of a = -0.75, which bends lines.
    EXPECT_NEAR(grid[5][3][2].item<double>(), 1.296875, 1e-5);
    EXPECT_NEAR(grid[0][4][7].item<double>(), 1.703125, 1e-5);
  }
}

}  // namespace
}  // namespace attnlab::pretrained_test
