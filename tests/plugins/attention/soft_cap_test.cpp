// Soft-capped attention: softmax(c tanh(Q Kᵀ / (c √D))) V.
#include <gtest/gtest.h>

#include "tests/support/attended.h"
#include "tests/support/naive_weights.h"
#include "tests/support/plugins.h"

namespace attnlab::soft_cap_test {
namespace {

using testing::Index;
using testing::largest_difference;
using testing::random_input;

Tensor attended(const AttentionInput& in, const std::string& options = "{}",
                AttentionTrace* trace = nullptr) {
  return testing::attended(*testing::make_attention("soft_cap", testing::shape_of(in), options), in,
                           trace);
}

/// The logits of products and relative positions capped, then a bias that the model gives.
Tensor naive(const AttentionInput& in, double cap) {
  AttentionInput unbiased = in;
  unbiased.bias = Tensor();
  const Tensor products = testing::naive_logits(unbiased, {.scale = 0.5});
  const Tensor visible = testing::naive_visible(in);
  Tensor weights = at::zeros_like(products);
  const auto p = products.accessor<double, 4>();
  const auto sees = visible.accessor<bool, 4>();
  auto to = weights.accessor<double, 4>();
  const auto logit = [&](Index b, Index h, Index i, Index j) {
    const double own = in.bias.defined() ? testing::at_pair(in.bias, b, h, i, j) : 0;
    return cap * std::tanh(p[b][h][i][j] / cap) + own;
  };
  testing::each_pair(products, [&](Index b, Index h, Index i, Index j) {
    if (!sees[b][h][i][j]) return;
    double sum = 0;
    for (Index k = 0; k < products.size(3); ++k) {
      if (sees[b][h][i][k]) sum += std::exp(logit(b, h, i, k));
    }
    to[b][h][i][j] = std::exp(logit(b, h, i, j)) / sum;
  });
  return testing::weighed(weights, in.values);
}

TEST(SoftCapAttention, HonoursEveryInputOfTheContract) {
  const AttentionShape shape{.heads = 2, .head_dim = 4};
  const auto attention = testing::make_attention("soft_cap", shape);
  EXPECT_EQ(attention->traits(), AttentionTraits::all_quadratic());
  EXPECT_EQ(testing::parameter_count(*attention), 0);
}

TEST(SoftCapAttention, EqualsItsEquationUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [name, in] : testing::one_input_for_each_rule()) {
    AttentionTrace trace;
    for (const auto& [options, cap] : {std::pair("{cap: 0.7}", 0.7), std::pair("{}", 50.0)}) {
      const Tensor expected = naive(in, cap);
      EXPECT_LT(largest_difference(attended(in, options), expected), 1e-10) << name;
      EXPECT_LT(largest_difference(attended(in, options, &trace), expected), 1e-10) << name;
    }
  }
}

TEST(SoftCapAttention, NoLogitIsAboveTheCapAndSmallOnesStay) {
  at::manual_seed(2);
  AttentionInput in = random_input(1, 2, 4, 5, 4, 3);
  in.queries = in.queries * 1e4;
  AttentionTrace trace;
  trace.logits = true;
  attended(in, "{cap: 3}", &trace);
  EXPECT_LE(trace.layers[0].logits.abs().max().item<double>(), 3);
  EXPECT_GT(trace.layers[0].logits.abs().min().item<double>(), 2.9);
  in.queries = in.queries * 1e-8;
  const Tensor plain = testing::naive_attention(in, {.scale = 0.5});
  EXPECT_LT(largest_difference(attended(in), plain), 1e-10);
}

TEST(SoftCapAttention, RefusesACapThatIsNone) {
  const AttentionInput in = random_input(1, 1, 2, 2, 2, 2);
  EXPECT_THROW(attended(in, "{cap: 0}"), ConfigError);
  EXPECT_THROW(attended(in, "{cap: -1}"), ConfigError);
}

TEST(SoftCapAttention, GradientsAreRightTwice) {
  at::manual_seed(3);
  AttentionInput in = random_input(1, 2, 3, 4, 3, 2);
  testing::expect_right_gradients_twice(
      in, [&](const AttentionInput& x) { return attended(x, "{cap: 0.8}"); });
}

}  // namespace
}  // namespace attnlab::soft_cap_test
