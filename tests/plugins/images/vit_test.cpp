// The vision transformer: sizes, initialisation, modes.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/nn/modules/layers.h"
#include "framework/nn/modules/sizes_alone.h"
#include "tests/plugins/images/vit_models.h"
#include "tests/support/message_of.h"
#include "tests/support/naive_attention.h"

namespace attnlab::vit_test {
namespace {

using attnlab::testing::says;
using testing::largest_difference;
using vit_models::images;
using vit_models::kSmall;
using vit_models::outputs;
using vit_models::small_vit;
using vit_models::vit;

TEST(Vit, PresetsHaveThePublishedParameterCounts) {
  const SizesAlone sizes;
  const DatasetInfo imagenet = images(3, 224, 224, 1000);
  EXPECT_EQ(testing::parameter_count(*vit(imagenet, "preset: Ti")), 5'717'416);
  EXPECT_EQ(testing::parameter_count(*vit(imagenet, "preset: S")), 22'050'664);
  EXPECT_EQ(testing::parameter_count(*vit(imagenet, "preset: B")), 86'567'656);
}

TEST(Vit, OptionsWinOverThePreset) {
  const auto model = vit(images(3, 32, 32, 10), "preset: Ti, depth: 2, patch_size: 8");
  const auto parameters = model->named_parameters();
  EXPECT_TRUE(parameters.contains("layer1.attention.qkv.weight"));
  EXPECT_FALSE(parameters.contains("layer2.attention.qkv.weight"));
  EXPECT_EQ(parameters["positions"].sizes(), at::IntArrayRef({1, 17, 192}));
}

TEST(Vit, GivesLogitsAndTokensForRectangularImages) {
  const auto model = small_vit();
  const NamedTensors y = outputs(*model, at::randn({3, 1, 8, 12}));
  EXPECT_EQ(y.at("logits").sizes(), at::IntArrayRef({3, 5}));
  EXPECT_EQ(y.at("tokens").sizes(), at::IntArrayRef({3, 1 + 2 * 3, 24}));
}

TEST(Vit, MeanPoolingHasNoClassToken) {
  const auto model = small_vit("pool: mean");
  EXPECT_FALSE(model->named_parameters().contains("class_token"));
  const NamedTensors y = outputs(*model, at::randn({3, 1, 8, 12}));
  EXPECT_EQ(y.at("tokens").sizes(), at::IntArrayRef({3, 6, 24}));
  const auto parameters = model->named_parameters();
  const Tensor expected =
      at::matmul(y.at("tokens").mean(1), parameters["head.weight"].t()) + parameters["head.bias"];
  EXPECT_LT(largest_difference(y.at("logits").detach(), expected.detach()), 1e-5);
}

TEST(Vit, StartsAsDeitDoes) {
  at::manual_seed(1);
  const auto model = vit(images(3, 32, 32, 10), "preset: Ti, patch_size: 4, depth: 2");
  for (const auto& item : model->named_parameters()) {
    const std::string& name = item.key();
    const Tensor& p = item.value();
    if (name.rfind("patches", 0) == 0) continue;  // PyTorch's convolution: see its own test
    const bool norm = name.find("norm") != std::string::npos;
    if (name.find("bias") != std::string::npos) {
      EXPECT_EQ(p.abs().max().item<double>(), 0) << name;
    } else if (norm) {
      EXPECT_EQ((p - 1).abs().max().item<double>(), 0) << name;
    } else {
      const double n = std::sqrt(static_cast<double>(p.numel()));
      EXPECT_NEAR(p.std().item<double>(), 0.02, 0.02 * 4 / n) << name;
      EXPECT_NEAR(p.mean().item<double>(), 0, 0.02 * 5 / n) << name;
    }
  }
}

TEST(Vit, OneSeedGivesOneModel) {
  at::manual_seed(2);
  const auto a = small_vit(), b = small_vit();
  at::manual_seed(2);
  const auto c = small_vit();
  bool differs = false;
  for (const auto& item : a->named_parameters()) {
    EXPECT_TRUE(item.value().equal(c->named_parameters()[item.key()])) << item.key();
    differs = differs || !item.value().equal(b->named_parameters()[item.key()]);
  }
  EXPECT_TRUE(differs);
}

TEST(Vit, AttentionsUnderComparisonStartFromTheSameWeights) {
  at::manual_seed(3);
  const auto standard = vit(images(1, 8, 8, 5), kSmall);
  at::manual_seed(3);
  const auto quest = vit(images(1, 8, 8, 5), kSmall, "quest");
  const Tensor x = at::randn({2, 1, 8, 8});
  for (const auto& item : standard->named_parameters()) {
    EXPECT_TRUE(item.value().equal(quest->named_parameters()[item.key()])) << item.key();
  }
  EXPECT_GT(largest_difference(outputs(*standard, x).at("logits"), outputs(*quest, x).at("logits")),
            1e-6);
}

TEST(Vit, DropPathActsInTrainingAlone) {
  at::manual_seed(4);
  const auto model = small_vit("drop_path: 0.5");
  const Tensor x = at::randn({16, 1, 8, 12});
  const auto logits = [&] { return outputs(*model, x).at("logits").detach(); };
  EXPECT_GT(largest_difference(logits(), logits()), 0);
  model->eval();
  EXPECT_EQ(largest_difference(logits(), logits()), 0);
}

std::vector<double> drop_probabilities(const std::string& options) {
  std::vector<double> all;
  for (const auto& module : vit(images(1, 8, 8, 5), options)->modules()) {
    const auto* drop = dynamic_cast<const DropPath*>(module.get());
    if (drop != nullptr) all.push_back(drop->probability());
  }
  return all;
}

TEST(Vit, DropPathRisesLinearlyFromZeroInTheFirstLayer) {
  const std::string sizes = "dim: 8, heads: 1, patch_size: 4, drop_path: 0.5";
  EXPECT_EQ(drop_probabilities(sizes + ", depth: 3"), (std::vector<double>{0, 0.25, 0.5}));
  EXPECT_EQ(drop_probabilities(sizes + ", depth: 1"), std::vector<double>{0});
}

TEST(Vit, DropPathIsTheSameInAllLayersWhereAskedFor) {
  EXPECT_EQ(drop_probabilities("dim: 8, heads: 1, patch_size: 4, drop_path: 0.5, depth: 3, "
                               "drop_path_rule: constant"),
            (std::vector<double>{0.5, 0.5, 0.5}));
}

TEST(Vit, StartsAsPytorchDoesWhereAskedFor) {
  at::manual_seed(14);
  const auto model =
      vit(images(3, 32, 32, 10), "preset: Ti, patch_size: 4, depth: 1, start: pytorch");
  const auto p = model->named_parameters();
  EXPECT_NEAR(p["positions"].std().item<double>(), 1, 0.05);
  EXPECT_NEAR(p["class_token"].std().item<double>(), 1, 0.2);
  for (const char* name : {"layer0.attention.qkv", "layer0.mlp.out", "head"}) {
    const Tensor weight = p[std::string(name) + ".weight"];
    const double bound = 1 / std::sqrt(double(weight.size(1)));
    EXPECT_NEAR(weight.abs().max().item<double>(), bound, 0.02 * bound) << name;
    EXPECT_NEAR(weight.std().item<double>(), bound / std::sqrt(3.0), 0.05 * bound) << name;
    EXPECT_GT(p[std::string(name) + ".bias"].abs().max().item<double>(), 0.5 * bound) << name;
  }
}

TEST(Vit, TakesPatchesThatWereSavedAsAMatrix) {
  const auto model = vit(images(3, 8, 8, 5), kSmall);
  const Tensor weight = model->named_parameters()["patches.weight"].detach();
  const Tensor matrix = weight.permute({0, 2, 3, 1}).reshape({24, -1});  // (h, w, c)
  EXPECT_TRUE(model->adapt("patches.weight", matrix).equal(weight));
}

TEST(Vit, DropoutsActInTrainingAlone) {
  for (const char* option : {"dropout: 0.5", "attention_dropout: 0.5"}) {
    at::manual_seed(6);
    const auto model = small_vit(option);
    const Tensor x = at::randn({4, 1, 8, 12});
    const auto logits = [&] { return outputs(*model, x).at("logits").detach(); };
    EXPECT_GT(largest_difference(logits(), logits()), 0) << option;
    model->eval();
    EXPECT_EQ(largest_difference(logits(), logits()), 0) << option;
  }
}

TEST(Vit, LayerScaleStartsAtItsOption) {
  const auto model = small_vit("layer_scale: 0.25");
  const auto parameters = model->named_parameters();
  for (const char* name : {"layer0.attention_scale.scale", "layer2.mlp_scale.scale"}) {
    ASSERT_TRUE(parameters.contains(name));
    EXPECT_EQ((parameters[name] - 0.25).abs().max().item<double>(), 0);
  }
  EXPECT_FALSE(small_vit()->named_parameters().contains("layer0.mlp_scale.scale"));
}

TEST(Vit, DecaysMatricesButNotPositionsAndClassToken) {
  const auto model = small_vit("layer_scale: 0.1");
  std::vector<std::string> decayed;
  for (const auto& item : model->named_parameters()) {
    if (model->decays(item.key(), item.value())) decayed.push_back(item.key());
  }
  for (const std::string& name : decayed) {
    EXPECT_EQ(name.substr(name.size() - 6), "weight");
    EXPECT_EQ(name.find("norm"), std::string::npos);
  }
  EXPECT_EQ(decayed.size(), 1 + 3 * 4 + 1u);  // patches; qkv, output, in, out a layer; head
}

TEST(Vit, LayersLieBehindEachOther) {
  const auto model = small_vit("registers: 2, layer_scale: 0.1");
  for (const auto& [name, depth] : {std::pair{"patches.weight", 0},
                                    {"class_token", 0},
                                    {"positions", 0},
                                    {"registers", 0},
                                    {"layer0.attention.qkv.weight", 1},
                                    {"layer2.mlp_scale.scale", 3},
                                    {"norm.weight", 4},
                                    {"head.bias", 4}}) {
    ASSERT_TRUE(model->named_parameters().contains(name)) << name;
    EXPECT_EQ(model->depth(name), depth) << name;
  }
}

TEST(Vit, TracesEveryLayerWithoutChangingTheResult) {
  at::manual_seed(7);
  const auto model = small_vit();
  const Tensor x = at::randn({2, 1, 8, 12});
  AttentionTrace trace;
  trace.weights = true;
  const Tensor traced = outputs(*model, x, &trace).at("logits");
  EXPECT_LT(largest_difference(traced, outputs(*model, x).at("logits")), 1e-5);
  ASSERT_EQ(trace.layers.size(), 3u);
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(trace.layers[i].layer, i);
    EXPECT_EQ(trace.layers[i].weights.sizes(), at::IntArrayRef({2, 2, 7, 7}));
  }
}

// Images of two rows of three patches; their middle is at (0.5, 1).
TEST(Vit, EveryParameterGetsAGradient) {
  at::manual_seed(8);
  const auto model = small_vit("layer_scale: 0.1");
  outputs(*model, at::randn({4, 1, 8, 12})).at("logits").pow(2).sum().backward();
  for (const auto& item : model->named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
    EXPECT_GT(item.value().grad().abs().max().item<double>(), 0) << item.key();
  }
}

TEST(Vit, RunsInBFloat16) {
  at::manual_seed(9);
  const auto model = small_vit();
  const Tensor x = at::randn({4, 1, 8, 12});
  const Tensor expected = outputs(*model, x).at("logits").detach();
  model->to(at::kBFloat16);
  const Tensor y = outputs(*model, x).at("logits");
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_LT(largest_difference(y.detach(), expected), 0.05);
}

TEST(Vit, NamesTheOptionThatDoesNotFit) {
  const DatasetInfo data = images(1, 28, 28, 10);
  const auto says = [&](const std::string& options, const char* part) {
    const std::string message = testing::message_of<ConfigError>([&] { vit(data, options); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says("dim: 24, depth: 1, heads: 2, patch_size: 5", "5 does not divide");
  says("preset: Ti", "16 does not divide");
  says("dim: 24, depth: 1, heads: 5, patch_size: 4", "5 heads do not divide dim 24");
  says("depth: 1, heads: 5, patch_size: 4", "dim");
  says("dim: 22, depth: 1, heads: 2, patch_size: 4, positions: sinusoidal", "a multiple of 4");
  says("dim: 24, depth: 1, heads: 2", "patch_size");
  says("dim: 4611686018427387904, depth: 1, heads: 2", "dim: 4611686018427387904 is out of range");
  says("preset: Ti, mlp_ratio: 1e300", "1e300 is out of range");
}

TEST(Vit, HasAHiddenChannelHoweverSmallTheRatio) {
  const auto model = small_vit("mlp_ratio: 1e-9, start: pytorch");
  EXPECT_EQ(model->named_parameters()["layer0.mlp.in.weight"].size(0), 1);
  const Tensor logits = outputs(*model, at::randn({2, 1, 8, 12})).at("logits");
  EXPECT_TRUE(logits.isfinite().all().item<bool>());
}

TEST(Vit, RefusesDataThatItCannotClassify) {
  EXPECT_THROW(vit(images(1, 8, 8, 0), kSmall), ShapeError);
  EXPECT_THROW(vit(images(1, -1, 8, 3), kSmall), ShapeError);
  const auto model = small_vit();
  EXPECT_THROW(outputs(*model, at::randn({2, 1, 10, 8})), ShapeError);
  EXPECT_THROW(outputs(*model, at::randn({2, 3, 8, 12})), ShapeError);
}

}  // namespace
}  // namespace attnlab::vit_test
