// Cog attention: sign(L) softmax(|L|) V.
#include <gtest/gtest.h>

#include "tests/support/attended.h"
#include "tests/support/naive_weights.h"
#include "tests/support/plugins.h"

namespace attnlab::cog_test {
namespace {

using testing::Index;
using testing::largest_difference;
using testing::random_input;

Tensor attended(const AttentionInput& in, AttentionTrace* trace = nullptr) {
  return testing::attended(*testing::make_attention("cog", testing::shape_of(in)), in, trace);
}

Tensor naive(const AttentionInput& in) {
  const Tensor logits = testing::naive_logits(in, {.scale = 0.5});
  const Tensor visible = testing::naive_visible(in);
  Tensor weights = at::zeros_like(logits);
  const auto l = logits.accessor<double, 4>();
  const auto sees = visible.accessor<bool, 4>();
  auto to = weights.accessor<double, 4>();
  testing::each_pair(logits, [&](Index b, Index h, Index i, Index j) {
    if (!sees[b][h][i][j]) return;
    double sum = 0;
    for (Index k = 0; k < logits.size(3); ++k) {
      if (sees[b][h][i][k]) sum += std::exp(std::abs(l[b][h][i][k]));
    }
    const double size = std::exp(std::abs(l[b][h][i][j])) / sum;
    to[b][h][i][j] = l[b][h][i][j] < 0 ? -size : size;
  });
  return testing::weighed(weights, in.values);
}

TEST(CogAttention, EqualsItsEquationUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [name, in] : testing::one_input_for_each_rule()) {
    const Tensor expected = naive(in);
    EXPECT_LT(largest_difference(attended(in), expected), 1e-10) << name;
    AttentionTrace trace;
    EXPECT_LT(largest_difference(attended(in, &trace), expected), 1e-10) << name;
  }
}

TEST(CogAttention, WeightsHaveTheSignsOfTheirLogitsAndSizesThatSumToOne) {
  at::manual_seed(2);
  const AttentionInput in = random_input(2, 2, 4, 6, 4, 3);
  AttentionTrace trace;
  trace.weights = trace.logits = true;
  attended(in, &trace);
  const Tensor weights = trace.layers[0].weights;
  EXPECT_TRUE(at::equal(weights.sign(), trace.layers[0].logits.sign()));
  EXPECT_TRUE(weights.lt(0).any().item<bool>());
  EXPECT_LT((weights.abs().sum(-1) - 1).abs().max().item<double>(), 1e-14);
}

TEST(CogAttention, AQueryTurnedRoundSubtractsWhatItAdded) {
  at::manual_seed(3);
  const AttentionInput in = random_input(1, 2, 4, 5, 4, 3);
  AttentionInput turned = in;
  turned.queries = -in.queries;
  EXPECT_LT(largest_difference(attended(turned), -attended(in)), 1e-14);
}

TEST(CogAttention, ALogitOfZeroHasNoWeight) {
  AttentionInput in = random_input(1, 1, 1, 3, 4, 2);
  in.queries.zero_();
  EXPECT_EQ(attended(in).abs().max().item<double>(), 0);
}

TEST(CogAttention, HasNoOptionsAndLearnsNothing) {
  const AttentionShape shape{.heads = 2, .head_dim = 4};
  EXPECT_EQ(testing::parameter_count(*testing::make_attention("cog", shape)), 0);
  EXPECT_THROW(testing::make_attention("cog", shape, "{scale: 1}"), ConfigError);
}

TEST(CogAttention, GradientsAreRightTwice) {
  at::manual_seed(4);
  AttentionInput in = random_input(1, 2, 3, 4, 3, 2);
  testing::expect_right_gradients_twice(in, [&](const AttentionInput& x) { return attended(x); });
}

}  // namespace
}  // namespace attnlab::cog_test
