// Where a vision transformer's tokens stand: learned positions, sinusoids, turned keys.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "tests/plugins/images/vit_models.h"
#include "tests/support/naive_attention.h"
#include "tests/support/noted_places.h"

namespace attnlab::vit_positions_test {
namespace {

using testing::largest_difference;
using vit_models::images;
using vit_models::kOneLayer;
using vit_models::kSmall;
using vit_models::outputs;
using vit_models::vit;

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

}  // namespace
}  // namespace attnlab::vit_positions_test
