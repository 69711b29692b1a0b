// Attention with a sink: exp(l) / (exp(s_h) + Σ exp(l)).
#include <gtest/gtest.h>

#include "tests/support/attended.h"
#include "tests/support/naive_weights.h"
#include "tests/support/plugins.h"

namespace attnlab::sink_test {
namespace {

using testing::attended;
using testing::Index;
using testing::largest_difference;
using testing::random_input;
using testing::Row;

std::shared_ptr<Attention> built(const AttentionInput& in, const std::string& options = "{}") {
  auto attention = testing::make_attention("sink", testing::shape_of(in), options);
  attention->to(at::kDouble);
  return attention;
}

/// With another sink for each head.
std::shared_ptr<Attention> varied(const AttentionInput& in) {
  auto attention = built(in);
  const at::NoGradGuard no_gradients;
  for (Tensor& parameter : attention->parameters()) parameter.copy_(at::randn_like(parameter));
  return attention;
}

Row sinks_of(const Attention& attention) {
  return testing::row(attention.named_parameters()["sink"]);
}

Tensor naive(const AttentionInput& in, const Row& sinks) {
  const Tensor logits = testing::naive_logits(in, {.scale = 0.5});
  const Tensor visible = testing::naive_visible(in);
  Tensor weights = at::zeros_like(logits);
  const auto l = logits.accessor<double, 4>();
  const auto sees = visible.accessor<bool, 4>();
  auto to = weights.accessor<double, 4>();
  testing::each_pair(logits, [&](Index b, Index h, Index i, Index j) {
    if (!sees[b][h][i][j]) return;
    double sum = std::exp(sinks[static_cast<std::size_t>(h)]);
    for (Index k = 0; k < logits.size(3); ++k) {
      if (sees[b][h][i][k]) sum += std::exp(l[b][h][i][k]);
    }
    to[b][h][i][j] = std::exp(l[b][h][i][j]) / sum;
  });
  return testing::weighed(weights, in.values);
}

TEST(SinkAttention, EqualsItsEquationUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [name, in] : testing::one_input_for_each_rule()) {
    const auto attention = varied(in);
    const Tensor expected = naive(in, sinks_of(*attention));
    testing::expect_attended(*attention, in, expected, name);
  }
}

TEST(SinkAttention, AddsOneToTheDenominatorWhereNothingIsLearned) {
  at::manual_seed(2);
  for (const auto& [name, in] : testing::one_input_for_each_rule()) {
    const auto attention = built(in, "{learned: false}");
    EXPECT_EQ(testing::parameter_count(*attention), 0);
    EXPECT_LT(largest_difference(attended(*attention, in), naive(in, {0, 0})), 1e-10) << name;
  }
}

TEST(SinkAttention, LearnsOneSinkOfEachHeadFromItsStartOn) {
  const AttentionInput in = random_input(1, 3, 2, 2, 4, 4);
  EXPECT_EQ(sinks_of(*built(in)), Row({0, 0, 0}));
  EXPECT_EQ(sinks_of(*built(in, "{start: -1.5}")), Row({-1.5, -1.5, -1.5}));
  EXPECT_EQ(testing::parameter_count(*built(in)), 3);
  EXPECT_THROW(built(in, "{start: .inf}"), ConfigError);
}

TEST(SinkAttention, GivesNearlyNothingWhereAllLogitsLieFarBelowTheSink) {
  at::manual_seed(3);
  AttentionInput in = random_input(1, 2, 4, 5, 4, 3);
  const auto attention = built(in);
  EXPECT_GT(attended(*attention, in).abs().max().item<double>(), 0.1);
  in.bias = at::full({1}, -50.0, at::kDouble);
  EXPECT_LT(attended(*attention, in).abs().max().item<double>(), 1e-15);
}

TEST(SinkAttention, IsStandardAttentionWhereTheSinkLiesFarBelowAllLogits) {
  at::manual_seed(4);
  for (const auto& [name, in] : testing::one_input_for_each_rule()) {
    const Tensor expected = testing::naive_attention(in, {.scale = 0.5});
    EXPECT_LT(largest_difference(attended(*built(in, "{start: -1000}"), in), expected), 1e-12)
        << name;
  }
}

TEST(SinkAttention, StaysRightWhereLogitsAndSinkAreLarge) {
  AttentionInput in = random_input(1, 1, 2, 2, 1, 1);
  in.queries = at::tensor({1.0f, -1.0f}).view({1, 1, 2, 1});
  in.keys = at::tensor({10000.0f, 9999.0f}).view({1, 1, 2, 1});
  in.values = at::tensor({1.0f, 0.0f}).view({1, 1, 2, 1});
  const auto attention = testing::make_attention("sink", testing::shape_of(in), "{start: 9999}");
  const Tensor out = attended(*attention, in).view({-1});
  // e¹ / (e¹ + 1 + 1) of the first query; the second has logits of -10000.
  EXPECT_NEAR(out[0].item<double>(), std::exp(1.0) / (std::exp(1.0) + 2), 1e-6);
  EXPECT_EQ(out[1].item<double>(), 0);
}

TEST(SinkAttention, GradientsAreRightTwice) {
  at::manual_seed(5);
  AttentionInput in = random_input(1, 2, 3, 4, 3, 2);
  const auto attention = varied(in);
  testing::expect_right_gradients_twice(
      in, [&](const AttentionInput& x) { return attended(*attention, x); },
      attention->parameters());
}

}  // namespace
}  // namespace attnlab::sink_test
