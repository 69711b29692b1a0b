// The building blocks against their definitions.
#include "framework/nn/layers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "framework/nn/dot_product_attention.h"
#include "tests/support/naive_attention.h"

namespace attnlab {
namespace {

using testing::largest_difference;

constexpr double kTolerance = 1e-10;

class Plain final : public DotProductAttention {
 public:
  using DotProductAttention::DotProductAttention;
};

/// Keeps the last input that it was given.
class Spying final : public Attention {
 public:
  explicit Spying(const AttentionShape& shape)
      : Attention(shape, AttentionTraits::all_quadratic()) {}
  AttentionInput seen;
  AttentionContext* context = nullptr;

 protected:
  Tensor attend(const AttentionInput& in, AttentionContext& with) override {
    seen = in;
    context = &with;
    return at::zeros({in.batch(), in.heads(), in.query_count(), in.values.size(3)},
                     in.values.options());
  }
};

template <class T>
AttentionBuilder building() {
  return [](const AttentionShape& shape) { return std::make_shared<T>(shape); };
}

/// [B, L, H * D] to [B, H, L, D] by its definition.
Tensor by_head(const Tensor& x, std::int64_t heads) { return at::stack(x.chunk(heads, 2), 1); }

TEST(TruncatedNormal, HasMeanZeroAndTheGivenDeviation) {
  at::manual_seed(1);
  Tensor x = at::empty({400, 500});
  fill_truncated_normal(x);
  EXPECT_NEAR(x.mean().item<double>(), 0, 2e-4);
  EXPECT_NEAR(x.std().item<double>(), 0.02, 2e-4);
  EXPECT_NEAR((x.abs() < 0.02).to(at::kDouble).mean().item<double>(), 0.6827, 5e-3);
}

TEST(TruncatedNormal, CutsAtAbsoluteBoundsWithTheRightDistributionBetween) {
  at::manual_seed(2);
  Tensor x = at::empty({200000}, at::kDouble);
  fill_truncated_normal(x, 1.0, -0.5, 1.0);
  EXPECT_GE(x.min().item<double>(), -0.5);
  EXPECT_LE(x.max().item<double>(), 1.0);
  const auto phi = [](double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); };
  for (const double z : {-0.25, 0.0, 0.5}) {
    const double expected = (phi(z) - phi(-0.5)) / (phi(1.0) - phi(-0.5));
    EXPECT_NEAR((x < z).to(at::kDouble).mean().item<double>(), expected, 5e-3) << z;
  }
}

TEST(TruncatedNormal, RepeatsWithTheSeed) {
  Tensor a = at::empty({50}), b = at::empty({50}), c = at::empty({50});
  at::manual_seed(3);
  fill_truncated_normal(a);
  fill_truncated_normal(b);
  at::manual_seed(3);
  fill_truncated_normal(c);
  EXPECT_TRUE(a.equal(c));
  EXPECT_FALSE(a.equal(b));
}

TEST(TruncatedNormal, RefusesImpossibleBounds) {
  Tensor x = at::empty({2});
  EXPECT_THROW(fill_truncated_normal(x, 0), ShapeError);
  EXPECT_THROW(fill_truncated_normal(x, 1, 2, 1), ShapeError);
}

TEST(LayerNorm, NormalisesTheLastDimension) {
  LayerNorm norm(6, 1e-6);
  const Tensor x = at::randn({2, 3, 6}) * 5 + 1;
  const Tensor y = norm.forward(x).detach();
  const Tensor centred = x - x.mean(-1, true);
  const Tensor variance = (centred * centred).mean(-1, true);
  EXPECT_LT(largest_difference(y, centred / (variance + 1e-6).sqrt()), 1e-5);
}

TEST(MultiHeadAttention, SelfAttentionEqualsItsDefinition) {
  at::manual_seed(4);
  MultiHeadOptions options;
  options.dim = 12, options.heads = 3;
  MultiHeadAttention layer(options, building<Plain>());
  layer.to(at::kDouble);
  const at::NoGradGuard no_gradients;
  for (const auto& parameter : layer.parameters()) parameter.normal_();
  const auto weights = layer.named_parameters();
  const Tensor x = at::randn({2, 5, 12}, at::kDouble);
  const auto projected = [&](std::int64_t i) {
    const Tensor w = weights["qkv.weight"].narrow(0, 12 * i, 12);
    return by_head(at::matmul(x, w.t()) + weights["qkv.bias"].narrow(0, 12 * i, 12), 3);
  };
  AttentionInput in;
  in.queries = projected(0), in.keys = projected(1), in.values = projected(2);
  const Tensor heads = testing::naive_attention(in, {.scale = 0.5});
  const Tensor merged = at::cat(heads.unbind(1), 2);
  const Tensor expected = at::matmul(merged, weights["output.weight"].t()) + weights["output.bias"];
  AttentionContext context;
  EXPECT_LT(largest_difference(layer.forward(x, context), expected), kTolerance);
  // The same weights serve where the three sources are three tensors.
  EXPECT_LT(largest_difference(layer.forward(x.clone(), x.clone(), x.clone(), context), expected),
            kTolerance);
}

TEST(MultiHeadAttention, TakesQueriesKeysAndValuesFromThreeSequences) {
  at::manual_seed(5);
  MultiHeadOptions options;
  options.dim = 8, options.heads = 2, options.key_source = 6, options.value_source = 10;
  options.head_dim = 3, options.value_dim = 5, options.qkv_bias = false;
  MultiHeadAttention layer(options, building<Spying>());
  const Tensor q = at::randn({2, 4, 8}), k = at::randn({2, 7, 6}), v = at::randn({2, 7, 10});
  AttentionContext context;
  const Tensor y = layer.forward(q, k, v, context);
  EXPECT_EQ(y.sizes(), at::IntArrayRef({2, 4, 8}));
  const auto weights = layer.named_parameters();
  EXPECT_FALSE(weights.contains("query.bias"));
  const AttentionInput& seen = static_cast<Spying&>(layer.attention()).seen;
  EXPECT_TRUE(seen.values_from_elsewhere);
  const auto projected = [&](const Tensor& x, const char* name) {
    return by_head(at::matmul(x, weights[name].t()), 2);
  };
  EXPECT_LT(largest_difference(seen.queries, projected(q, "query.weight")), 1e-6);
  EXPECT_LT(largest_difference(seen.keys, projected(k, "key.weight")), 1e-6);
  EXPECT_LT(largest_difference(seen.values, projected(v, "value.weight")), 1e-6);
}

TEST(MultiHeadAttention, PacksProjectionsOfDifferentWidths) {
  at::manual_seed(6);
  MultiHeadOptions options;
  options.dim = 8, options.heads = 2, options.head_dim = 3, options.value_dim = 5;
  MultiHeadAttention layer(options, building<Spying>());
  const auto weights = layer.named_parameters();
  ASSERT_EQ(weights["qkv.weight"].sizes(), at::IntArrayRef({2 * (3 + 3 + 5), 8}));
  const Tensor x = at::randn({1, 4, 8});
  AttentionContext context;
  layer.forward(x, context);
  const AttentionInput& seen = static_cast<Spying&>(layer.attention()).seen;
  EXPECT_FALSE(seen.values_from_elsewhere);
  const Tensor values = at::matmul(x, weights["qkv.weight"].narrow(0, 12, 10).t());
  EXPECT_LT(largest_difference(seen.values, by_head(values, 2)), 1e-6);
}

TEST(MultiHeadAttention, PassesOnWhatGoesWithTheInput) {
  MultiHeadOptions options;
  options.dim = 4, options.heads = 2, options.attention_dropout = 0.3;
  options.layer = 2, options.layers = 6;
  MultiHeadAttention layer(options, building<Spying>());
  AttentionExtras extras;
  extras.visible.causal = true;
  extras.bias = at::zeros({3, 3});
  extras.relative.keys = at::zeros({2, 5, 2});
  extras.query_positions = at::zeros({1, 3, 2});
  extras.key_positions = at::ones({1, 3, 2});
  AttentionContext context;
  layer.forward(at::randn({1, 3, 4}), context, extras);
  const auto& spy = static_cast<Spying&>(layer.attention());
  EXPECT_EQ(spy.context, &context);
  EXPECT_TRUE(spy.seen.visible.causal);
  EXPECT_TRUE(spy.seen.bias.is_same(extras.bias));
  EXPECT_TRUE(spy.seen.relative.keys.is_same(extras.relative.keys));
  EXPECT_TRUE(spy.seen.query_positions.is_same(extras.query_positions));
  EXPECT_TRUE(spy.seen.key_positions.is_same(extras.key_positions));
  EXPECT_EQ(spy.shape().layer, 2);
  EXPECT_EQ(spy.shape().layers, 6);
  EXPECT_EQ(spy.shape().dropout, 0.3);
}

TEST(MultiHeadAttention, RefusesHeadsThatDoNotDivideTheChannels) {
  MultiHeadOptions options;
  options.dim = 10, options.heads = 3;
  EXPECT_THROW(MultiHeadAttention(options, building<Plain>()), ShapeError);
}

TEST(Mlp, EqualsItsDefinition) {
  at::manual_seed(7);
  Mlp mlp(4, 9);
  mlp.to(at::kDouble);
  const at::NoGradGuard no_gradients;
  for (const auto& parameter : mlp.parameters()) parameter.normal_();
  const auto w = mlp.named_parameters();
  const Tensor x = at::randn({2, 3, 4}, at::kDouble);
  const Tensor h = at::matmul(x, w["in.weight"].t()) + w["in.bias"];
  const Tensor gelu = h * 0.5 * (1 + (h / std::sqrt(2.0)).erf());
  const Tensor expected = at::matmul(gelu, w["out.weight"].t()) + w["out.bias"];
  EXPECT_LT(largest_difference(mlp.forward(x), expected), kTolerance);
}

TEST(Mlp, DropoutActsInTrainingAlone) {
  at::manual_seed(8);
  Mlp mlp(4, 8, 0.5);
  const Tensor x = at::randn({50, 4});
  EXPECT_FALSE(mlp.forward(x).equal(mlp.forward(x)));
  mlp.eval();
  EXPECT_TRUE(mlp.forward(x).equal(mlp.forward(x)));
}

TEST(DropPath, DropsWholeExamplesAndRescalesTheOthers) {
  at::manual_seed(9);
  DropPath drop(0.25);
  const Tensor x = at::ones({4000, 2, 3});
  const Tensor y = drop.forward(x);
  const Tensor first = y.select(1, 0).select(1, 0);
  EXPECT_TRUE(y.equal(first.view({4000, 1, 1}).expand_as(y)));
  const Tensor kept = (first - 1 / 0.75).abs() < 1e-6;
  EXPECT_TRUE(kept.logical_or(first == 0).all().item<bool>());
  EXPECT_NEAR(kept.to(at::kDouble).mean().item<double>(), 0.75, 0.03);
}

TEST(DropPath, LetsEverythingThroughInEvaluationAndAtZero) {
  DropPath drop(0.9), never(0);
  drop.eval();
  const Tensor x = at::randn({8, 2});
  EXPECT_TRUE(drop.forward(x).is_same(x));
  EXPECT_TRUE(never.forward(x).is_same(x));
  EXPECT_THROW(DropPath(1.0), ShapeError);
  EXPECT_THROW(DropPath(-0.1), ShapeError);
}

TEST(LayerScale, MultipliesChannels) {
  LayerScale scale(3, 0.1);
  const Tensor x = at::randn({2, 4, 3});
  EXPECT_LT(largest_difference(scale.forward(x).detach(), x * 0.1), 1e-7);
  EXPECT_EQ(scale.scale.sizes(), at::IntArrayRef({3}));
}

TEST(PatchEmbedding, IsAConvolutionWhoseStrideIsItsKernel) {
  at::manual_seed(10);
  PatchOptions options;
  options.channels = 3, options.height = 8, options.width = 12;
  options.patch_height = 4, options.patch_width = 3, options.dim = 5;
  PatchEmbedding embed(options);
  embed.to(at::kDouble);
  const at::NoGradGuard no_gradients;
  const Tensor images = at::randn({2, 3, 8, 12}, at::kDouble);
  const Tensor tokens = embed.forward(images);
  ASSERT_EQ(tokens.sizes(), at::IntArrayRef({2, 2 * 4, 5}));
  ASSERT_EQ(embed.count(), 8);
  for (std::int64_t row = 0; row < 2; ++row) {
    for (std::int64_t column = 0; column < 4; ++column) {
      const Tensor patch = images.narrow(2, 4 * row, 4).narrow(3, 3 * column, 3).unsqueeze(1);
      const Tensor expected = (patch * embed.weight).sum({2, 3, 4}) + embed.bias;
      EXPECT_LT(largest_difference(tokens.select(1, 4 * row + column), expected), kTolerance);
    }
  }
  EXPECT_LT(
      largest_difference(embed.forward(images.contiguous(at::MemoryFormat::ChannelsLast)), tokens),
      kTolerance);
}

TEST(PatchEmbedding, StartsUniformWithinTheFanIn) {
  at::manual_seed(11);
  PatchOptions options;
  options.height = options.width = options.patch_height = options.patch_width = 16;
  options.dim = 192;
  const PatchEmbedding embed(options);
  const double bound = 1 / std::sqrt(3.0 * 16 * 16);
  for (const Tensor& x : {embed.weight, embed.bias}) {
    EXPECT_LE(x.abs().max().item<double>(), bound);
    EXPECT_GT(x.abs().max().item<double>(), 0.9 * bound);
  }
  EXPECT_NEAR(embed.weight.std().item<double>(), bound / std::sqrt(3.0), 0.01 * bound);
}

TEST(PatchEmbedding, RefusesPatchesAndImagesThatDoNotFit) {
  PatchOptions options;
  options.height = 10, options.width = 8;
  options.patch_height = options.patch_width = 4;
  options.dim = 2;
  EXPECT_THROW(PatchEmbedding{options}, ShapeError);
  options.height = 8;
  PatchEmbedding embed(options);
  EXPECT_THROW(embed.forward(at::zeros({1, 3, 8, 12})), ShapeError);
  EXPECT_THROW(embed.forward(at::zeros({3, 8, 8})), ShapeError);
}

}  // namespace
}  // namespace attnlab
