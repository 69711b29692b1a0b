// Layers of a vision transformer against loops: GELUs, RMS norms, SwiGLU, registers.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/plugins/images/vit_models.h"
#include "tests/support/naive_attention.h"
#include "tests/support/noted_places.h"

namespace attnlab::vit_layers_test {
namespace {

using testing::largest_difference;
using vit_models::images;
using vit_models::kOneLayer;
using vit_models::kSmall;
using vit_models::outputs;
using vit_models::small_vit;
using vit_models::vit;

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

}  // namespace
}  // namespace attnlab::vit_layers_test
