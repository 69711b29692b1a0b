// The vision transformer: sizes, initialisation, modes.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "framework/nn/modules/layers.h"
#include "framework/nn/modules/sizes_alone.h"
#include "tests/support/naive_attention.h"
#include "tests/support/noted_places.h"
#include "tests/support/plugins.h"

namespace attnlab::vit_test {
namespace {

using testing::largest_difference;

const std::string kSmall = "dim: 24, depth: 3, heads: 2, patch_size: 4";
const std::string kOneLayer = "dim: 24, depth: 1, heads: 2, patch_size: 4";

DatasetInfo images(std::int64_t channels, std::int64_t height, std::int64_t width,
                   std::int64_t classes) {
  DatasetInfo data;
  data.name = "test images";
  data.fields = {{"image", {channels, height, width}, at::kFloat}, {"class", {}, at::kLong}};
  data.classes = classes;
  return data;
}

std::shared_ptr<Model> vit(const DatasetInfo& data, const std::string& options,
                           const std::string& attention = "standard") {
  return testing::make_model("vit", data, "{" + options + "}", attention);
}

std::shared_ptr<Model> small_vit(const std::string& more = "") {
  return vit(images(1, 8, 12, 5), kSmall + (more.empty() ? "" : ", " + more));
}

Batch batch_of(const Tensor& image) {
  Batch batch;
  batch.fields.set("image", image);
  batch.size = image.size(0);
  return batch;
}

NamedTensors outputs(Model& model, const Tensor& image, AttentionTrace* trace = nullptr) {
  ForwardPass pass{trace};
  return model.forward(batch_of(image), pass);
}

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

TEST(Vit, AddsPositionsToPatchesAloneWhereAskedFor) {
  at::manual_seed(12);
  const auto model = vit(images(1, 8, 12, 5), kOneLayer + ", positions: patches");
  const auto parameters = model->named_parameters();
  EXPECT_EQ(parameters["positions"].size(1), 6);
  // With branches that give nothing, the class token arrives as it is: without a position.
  for (const char* name : {"layer0.attention.output.weight", "layer0.mlp.out.weight"}) {
    parameters[name].data().zero_();
  }
  const Tensor token = outputs(*model, at::randn({1, 1, 8, 12})).at("tokens")[0][0];
  const Tensor expected = at::layer_norm(parameters["class_token"][0][0], {24}, {}, {}, 1e-6);
  EXPECT_LT(largest_difference(token.detach(), expected.detach()), 1e-5);
}

TEST(Vit, HasASecondGeluAndAHiddenHeadWhereAskedFor) {
  at::manual_seed(13);
  const auto model =
      vit(images(1, 8, 12, 5),
          kOneLayer + ", mlp_output_gelu: true, final_norm: false, head_hidden: 7, pool: mean");
  const auto p = model->named_parameters();
  EXPECT_FALSE(p.contains("norm.weight"));
  p["layer0.attention.output.weight"].data().zero_();
  const Tensor x = at::randn({2, 1, 8, 12});
  const Tensor patches =
      at::conv2d(x, p["patches.weight"], p["patches.bias"], 4).flatten(2).transpose(1, 2) +
      p["positions"];
  const auto linear = [&](const Tensor& y, const std::string& name) {
    return at::linear(y, p[name + ".weight"], p[name + ".bias"]);
  };
  const Tensor normed = at::layer_norm(patches, {24}, {}, {}, 1e-6);
  const Tensor tokens =
      patches + at::gelu(linear(at::gelu(linear(normed, "layer0.mlp.in")), "layer0.mlp.out"));
  const Tensor expected = linear(at::gelu(linear(tokens.mean(1), "head_in")), "head");
  EXPECT_LT(largest_difference(outputs(*model, x).at("logits").detach(), expected.detach()), 1e-5);
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

/// x over its root mean square, by loops. @param x  [n, dim]
Tensor rms_by_loops(const Tensor& x, const Tensor& weight) {
  const Tensor y = at::empty_like(x);
  for (std::int64_t i = 0; i < x.size(0); ++i) {
    double squares = 0;
    for (std::int64_t c = 0; c < x.size(1); ++c) squares += std::pow(x[i][c].item<double>(), 2);
    const double root = std::sqrt(squares / double(x.size(1)) + 1e-6);
    for (std::int64_t c = 0; c < x.size(1); ++c) {
      y[i][c] = x[i][c].item<double>() / root * weight[c].item<double>();
    }
  }
  return y;
}

TEST(Vit, HasRegistersRmsNormsAndSwigluAgainstLoops) {
  at::manual_seed(31);
  for (const std::string pool : {"class_token", "mean"}) {
    const auto model = vit(images(1, 8, 12, 5),
                           "dim: 6, depth: 2, heads: 2, patch_size: 4, registers: 3, norm: rms, "
                           "mlp: swiglu, swiglu_multiple: 5, pool: " +
                               pool);
    model->to(at::kDouble);
    const at::NoGradGuard no_gradients;
    for (Tensor& parameter : model->parameters()) parameter.add_(at::randn_like(parameter), 0.3);
    const auto p = model->named_parameters();
    EXPECT_EQ(p["registers"].sizes(), at::IntArrayRef({1, 3, 6}));
    EXPECT_EQ(p["layer0.mlp.out.weight"].sizes(), at::IntArrayRef({6, 20})) << "16, up to 20";
    const auto linear = [&](const Tensor& x, const std::string& name) {
      return at::matmul(x, p[name + ".weight"].t()) + p[name + ".bias"];
    };
    const Tensor image = at::randn({1, 1, 8, 12}, at::kDouble);
    std::vector<Tensor> rows;
    if (pool == "class_token") rows.push_back(p["class_token"].view({6}));
    for (std::int64_t r = 0; r < 2; ++r) {
      for (std::int64_t c = 0; c < 3; ++c) {
        const Tensor patch = image[0].narrow(1, 4 * r, 4).narrow(2, 4 * c, 4);
        rows.push_back((p["patches.weight"] * patch).sum({1, 2, 3}) + p["patches.bias"]);
      }
    }
    const auto kept = std::int64_t(rows.size());
    for (std::int64_t i = 0; i < kept; ++i) {
      rows[std::size_t(i)] = rows[std::size_t(i)] + p["positions"][0][i];
    }
    for (std::int64_t r = 0; r < 3; ++r) rows.push_back(p["registers"][0][r]);
    Tensor x = at::stack(rows);
    for (const std::string layer : {"layer0.", "layer1."}) {
      const Tensor qkv =
          linear(rms_by_loops(x, p[layer + "attention_norm.weight"]), layer + "attention.qkv");
      const Tensor seen = at::zeros_like(x);
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t i = 0; i < x.size(0); ++i) {
          Tensor sum = at::zeros({3}, at::kDouble);
          double weight = 0;
          for (std::int64_t j = 0; j < x.size(0); ++j) {  // registers see and are seen
            const Tensor q = qkv[i].narrow(0, 3 * h, 3), k = qkv[j].narrow(0, 6 + 3 * h, 3);
            const double e = std::exp(q.dot(k).item<double>() / std::sqrt(3.0));
            sum = sum + qkv[j].narrow(0, 12 + 3 * h, 3) * e;
            weight += e;
          }
          seen[i].narrow(0, 3 * h, 3).copy_(sum / weight);
        }
      }
      x = x + linear(seen, layer + "attention.output");
      const Tensor both = linear(rms_by_loops(x, p[layer + "mlp_norm.weight"]), layer + "mlp.in");
      const Tensor gate = both.narrow(1, 0, 20), up = both.narrow(1, 20, 20);
      x = x + linear(gate / (1 + (-gate).exp()) * up, layer + "mlp.out");
    }
    const Tensor tokens = rms_by_loops(x, p["norm.weight"]).narrow(0, 0, kept);
    const Tensor pooled = pool == "mean" ? tokens.mean(0) : tokens[0];
    const NamedTensors y = outputs(*model, image);
    EXPECT_LT(largest_difference(y.at("tokens")[0], tokens), 1e-10) << pool;
    EXPECT_LT(largest_difference(y.at("logits")[0], linear(pooled, "head")), 1e-10) << pool;
  }
}

TEST(Vit, RegistersAreTokensOfEveryLayerAndStandInTheMiddle) {
  const auto model = small_vit("registers: 2");
  EXPECT_EQ(testing::parameter_count(*model) - testing::parameter_count(*small_vit()), 2 * 24);
  EXPECT_FALSE(model->decays("registers", model->named_parameters()["registers"]));
  AttentionTrace trace;
  trace.weights = true;
  EXPECT_EQ(outputs(*model, at::randn({2, 1, 8, 12}), &trace).at("tokens").sizes(),
            at::IntArrayRef({2, 7, 24}));
  ASSERT_EQ(trace.layers.size(), 3u);
  EXPECT_EQ(trace.layers[2].weights.sizes(), at::IntArrayRef({2, 2, 9, 9}));
  std::vector<testing::NotedPlaces> noted;
  const auto reads =
      testing::noting_places("vit", images(1, 8, 12, 5), "{" + kSmall + ", registers: 2}", noted);
  outputs(*reads, at::randn({1, 1, 8, 12}));
  ASSERT_EQ(noted.size(), 3u);
  ASSERT_EQ(noted[0].keys.sizes(), at::IntArrayRef({1, 9, 2}));
  const Tensor middle = at::tensor({0.5, 1.0}, at::kDouble).expand({2, 2});
  EXPECT_LT(largest_difference(noted[0].keys[0].narrow(0, 7, 2), middle), 1e-6);
}

TEST(Vit, RegistersStartAsInDinov2) {
  at::manual_seed(32);
  const Tensor registers =
      vit(images(1, 8, 8, 5), "dim: 512, depth: 1, heads: 2, patch_size: 4, registers: 8")
          ->named_parameters()["registers"];
  EXPECT_NEAR(registers.std().item<double>(), 1e-6, 1e-7);
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
TEST(Vit, TellsEveryLayerRowsAndColumnsOfPatches) {
  const Tensor patches =
      at::tensor({0, 0, 0, 1, 0, 2, 1, 0, 1, 1, 1, 2}, at::kDouble).view({1, 6, 2});
  const Tensor class_token = at::tensor({0.5, 1.0}, at::kDouble).view({1, 1, 2});
  for (const std::string pool : {"class_token", "mean"}) {
    const Tensor expected = pool == "mean" ? patches : at::cat({class_token, patches}, 1);
    std::vector<testing::NotedPlaces> noted;
    const auto model = testing::noting_places("vit", images(1, 8, 12, 5),
                                              "{" + kSmall + ", pool: " + pool + "}", noted);
    outputs(*model, at::randn({2, 1, 8, 12}));
    ASSERT_EQ(noted.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(noted[i].layer, std::int64_t(i));
      EXPECT_LT(largest_difference(noted[i].queries, expected), 1e-6) << pool;
      EXPECT_LT(largest_difference(noted[i].keys, expected), 1e-6) << pool;
    }
  }
}

TEST(Vit, TellsNoPlacesWhereNobodyAsks) {
  std::vector<testing::NotedPlaces> noted;
  const auto model = testing::noting_places("vit", images(1, 8, 12, 5), "{" + kSmall + "}", noted,
                                            /*asks=*/false);
  outputs(*model, at::randn({2, 1, 8, 12}));
  ASSERT_EQ(noted.size(), 3u);
  for (const testing::NotedPlaces& layer : noted) {
    EXPECT_FALSE(layer.queries.defined() || layer.keys.defined());
  }
}

/// A ViT of one layer with QUEST, in float64. @param kind  of attention.positions
std::shared_ptr<Model> placed_vit(const std::string& more, const std::string& kind) {
  Part attention = testing::make_part(Kind::attention, "quest");
  attention.positions.use = kind;
  const AttentionBuilder builder =
      testing::registry().attention_builder(attention, RandomStreams(0));
  const Part model = testing::make_part(Kind::model, "vit", "{" + kOneLayer + ", " + more + "}");
  auto built = testing::registry().model(model, {images(1, 8, 12, 5), builder});
  built->to(at::kDouble);
  const at::NoGradGuard no_gradients;
  for (Tensor& parameter : built->parameters()) parameter.normal_(0, 0.3);
  return built;
}

/// Logits of one image without positions but those of QUEST's turned queries and keys, written out.
/// @param places  [1 + N, 2] of class token and patches
Tensor naive_rotary(const Model& model, const Tensor& image, const Tensor& places) {
  const auto p = model.named_parameters();
  const auto linear = [&](const Tensor& x, const std::string& name) {
    return at::matmul(x, p[name + ".weight"].t()) + p[name + ".bias"];
  };
  const auto norm = [&](const Tensor& x, const std::string& name) {
    return at::layer_norm(x, {24}, p[name + ".weight"], p[name + ".bias"], 1e-6);
  };
  const Tensor patches =
      at::conv2d(image, p["patches.weight"], p["patches.bias"], 4).flatten(2).transpose(1, 2)[0];
  Tensor x = at::cat({p["class_token"][0], patches});
  const Tensor qkv = linear(norm(x, "layer0.attention_norm"), "layer0.attention.qkv").detach();
  const std::int64_t tokens = x.size(0), width = 12, pairs = 3;
  // Token i of a head's queries (0) or keys (1), turned.
  const auto turned = [&](std::int64_t which, std::int64_t head, std::int64_t i) {
    Tensor y = qkv[i].narrow(0, 24 * which + width * head, width).clone();
    for (std::int64_t m = 0; m < 2 * pairs; ++m) {
      const double place = places[i][m / pairs].item<double>();
      const double angle = place * std::pow(10000.0, -double(m % pairs) / double(pairs));
      const double even = y[2 * m].item<double>(), odd = y[2 * m + 1].item<double>();
      y[2 * m] = even * std::cos(angle) - odd * std::sin(angle);
      y[2 * m + 1] = even * std::sin(angle) + odd * std::cos(angle);
    }
    return y;
  };
  Tensor read = at::zeros({tokens, 24}, at::kDouble);
  for (std::int64_t h = 0; h < 2; ++h) {
    Tensor logits = at::zeros({tokens, tokens}, at::kDouble);
    for (std::int64_t i = 0; i < tokens; ++i) {
      for (std::int64_t j = 0; j < tokens; ++j) {
        const Tensor key = turned(1, h, j);
        logits[i][j] = turned(0, h, i).dot(key / key.norm());
      }
    }
    read.narrow(1, width * h, width)
        .copy_(at::matmul(logits.softmax(-1), qkv.narrow(1, 48 + width * h, width)));
  }
  x = x + linear(read, "layer0.attention.output");
  const Tensor hidden = linear(norm(x, "layer0.mlp_norm"), "layer0.mlp.in");
  x = x + linear(at::gelu(hidden), "layer0.mlp.out");
  return linear(norm(x, "norm")[0], "head");
}

TEST(Vit, TurnsQueriesAndKeysByRowsAndColumns) {
  at::manual_seed(20);
  const auto model = placed_vit("positions: none", "rotary");
  const Tensor image = at::randn({1, 1, 8, 12}, at::kDouble);
  const Tensor logits = outputs(*model, image).at("logits")[0];
  const Tensor places =
      at::tensor({0.5, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 2.0, 1.0, 0.0, 1.0, 1.0, 1.0, 2.0},
                 at::kDouble)
          .view({7, 2});
  EXPECT_LT(largest_difference(logits, naive_rotary(*model, image, places)), 1e-9);
  const Tensor shift = at::tensor({-3.0, 7.5}, at::kDouble);
  EXPECT_LT(largest_difference(logits, naive_rotary(*model, image, places + shift)), 1e-9)
      << "differences alone count";
  EXPECT_GT(largest_difference(logits, naive_rotary(*model, image, places.flip(1))), 1e-3)
      << "rows are not columns";
}

TEST(Vit, KnowsWherePatchesAreByPositionsAlone) {
  at::manual_seed(21);
  const Tensor image = at::randn({1, 1, 8, 12}, at::kDouble);
  const Tensor mirrored =  // columns of patches, in reverse
      image.view({1, 1, 8, 3, 4}).flip(3).reshape({1, 1, 8, 12});
  for (const auto& [own, kind, knows] :
       {std::tuple("none", "none", false), std::tuple("none", "rotary", true),
        std::tuple("all", "none", true), std::tuple("patches", "none", true),
        std::tuple("sinusoidal", "none", true)}) {
    const auto model = placed_vit(std::string("positions: ") + own, kind);
    const double change = largest_difference(outputs(*model, image).at("logits"),
                                             outputs(*model, mirrored).at("logits"));
    EXPECT_EQ(change > 1e-9, knows) << own << ", " << kind << ": " << change;
    EXPECT_EQ(model->named_parameters().contains("positions"),
              std::string(own) == "all" || std::string(own) == "patches");
  }
  // The class token stands in the middle, as far from a patch as from its mirror image.
  const auto alibi = placed_vit("positions: none", "alibi");
  EXPECT_LT(largest_difference(outputs(*alibi, image).at("logits"),
                               outputs(*alibi, mirrored).at("logits")),
            1e-9);
  const Tensor other = at::cat({image.slice(3, 4), image.slice(3, 0, 4)}, 3);
  EXPECT_GT(
      largest_difference(outputs(*alibi, image).at("logits"), outputs(*alibi, other).at("logits")),
      1e-6);
}

TEST(Vit, HasSinusoidsOfRowsAndColumnsWhereAskedFor) {
  at::manual_seed(22);
  const auto model = vit(images(1, 8, 12, 5), kOneLayer +
                                                  ", positions: sinusoidal, pool: mean, "
                                                  "final_norm: false");
  model->to(at::kDouble);
  const auto parameters = model->named_parameters();
  const at::NoGradGuard no_gradients;
  for (const char* name : {"layer0.attention.output.weight", "layer0.mlp.out.weight"}) {
    parameters[name].zero_();
  }
  const Tensor image = at::randn({1, 1, 8, 12}, at::kDouble);
  const Tensor patches =
      at::conv2d(image, parameters["patches.weight"], parameters["patches.bias"], 4).flatten(2);
  const Tensor added = outputs(*model, image).at("tokens")[0] - patches[0].t();
  for (std::int64_t n = 0; n < 6; ++n) {
    for (std::int64_t c = 0; c < 24; ++c) {
      const double place = c < 12 ? double(n / 3) : double(n % 3);
      const double angle = place * std::pow(10000.0, -2.0 * double(c % 6) / 12.0);
      EXPECT_NEAR(added[n][c].item<double>(), c % 12 < 6 ? std::sin(angle) : std::cos(angle), 1e-9);
    }
  }
}

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

std::string option_refused(const DatasetInfo& data, const std::string& options) {
  try {
    vit(data, options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Vit, NamesTheOptionThatDoesNotFit) {
  const DatasetInfo data = images(1, 28, 28, 10);
  const auto says = [&](const std::string& options, const char* part) {
    const std::string message = option_refused(data, options);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says("dim: 24, depth: 1, heads: 2, patch_size: 5", "5 does not divide images of 28 x 28 pixels");
  says("preset: Ti", "16 does not divide images of 28 x 28 pixels");
  says("dim: 24, depth: 1, heads: 5, patch_size: 4", "5 heads do not divide dim 24");
  says("depth: 1, heads: 5, patch_size: 4", "dim");
  says("dim: 22, depth: 1, heads: 2, patch_size: 4, positions: sinusoidal", "a multiple of 4");
  says("dim: 24, depth: 1, heads: 2", "patch_size");
  says("dim: 4611686018427387904, depth: 1, heads: 2", "dim: 4611686018427387904 is out of range");
  says("preset: Ti, mlp_ratio: 1e300", "mlp_ratio: 1e300 is out of range");
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
