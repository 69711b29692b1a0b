// Sigmoid attention: σ(Q Kᵀ / √D - log n) V.
#include <gtest/gtest.h>

#include <optional>

#include "tests/support/attended.h"
#include "tests/support/naive_weights.h"
#include "tests/support/plugins.h"

namespace attnlab::sigmoid_test {
namespace {

using testing::Index;
using testing::largest_difference;
using testing::random_input;

Tensor attended(const AttentionInput& in, const std::string& options = "{}",
                AttentionTrace* trace = nullptr) {
  return testing::attended(*testing::make_attention("sigmoid", testing::shape_of(in), options), in,
                           trace);
}

/// @param bias  of the logits; undefined: -log of the number of visible keys.
Tensor naive(const AttentionInput& in, double scale, std::optional<double> bias = {}) {
  const Tensor logits = testing::naive_logits(in, {.scale = scale});
  const Tensor visible = testing::naive_visible(in);
  Tensor weights = at::zeros_like(logits);
  testing::each_pair(logits, [&](Index b, Index h, Index i, Index j) {
    if (!visible.accessor<bool, 4>()[b][h][i][j]) return;
    const double shift = bias.value_or(-std::log(testing::naive_count(visible, b, h, i)));
    const double logit = logits.accessor<double, 4>()[b][h][i][j] + shift;
    weights.accessor<double, 4>()[b][h][i][j] = 1 / (1 + std::exp(-logit));
  });
  return testing::weighed(weights, in.values);
}

TEST(SigmoidAttention, EqualsItsEquationUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [name, in] : testing::one_input_for_each_rule()) {
    const Tensor expected = naive(in, 0.5);
    EXPECT_LT(largest_difference(attended(in), expected), 1e-10) << name;
    AttentionTrace trace;
    EXPECT_LT(largest_difference(attended(in, "{}", &trace), expected), 1e-10) << name;
  }
}

TEST(SigmoidAttention, TheRobustnessPapersCodeIsAnOption) {
  at::manual_seed(2);
  for (const auto& [name, in] : testing::one_input_for_each_rule()) {
    EXPECT_LT(largest_difference(attended(in, "{scale_by: model_dim, bias: constant}"),
                                 naive(in, 1 / std::sqrt(8.0), 0)),
              1e-10)
        << name;
    EXPECT_LT(
        largest_difference(attended(in, "{bias: constant, constant: -1.5}"), naive(in, 0.5, -1.5)),
        1e-10)
        << name;
  }
}

TEST(SigmoidAttention, RowsDoNotCompete) {
  at::manual_seed(3);
  AttentionInput in = random_input(1, 2, 4, 5, 4, 3);
  AttentionInput louder = in;
  louder.keys = in.keys.clone();
  louder.keys.select(2, 0).mul_(50);
  AttentionTrace trace;
  trace.weights = true;
  attended(in, "{}", &trace);
  attended(louder, "{}", &trace);
  const Tensor before = trace.layers[0].weights, after = trace.layers[1].weights;
  EXPECT_TRUE(at::equal(before.narrow(3, 1, 4), after.narrow(3, 1, 4)));
  EXPECT_GT(largest_difference(before.narrow(3, 0, 1), after.narrow(3, 0, 1)), 0.1);
  // With softmax, weights of a row sum to one; here they need not.
  EXPECT_GT((after.sum(-1) - 1).abs().max().item<double>(), 0.1);
}

TEST(SigmoidAttention, EqualLogitsOfZeroSumToNearlyOneForAnyNumberOfKeys) {
  for (const std::int64_t keys : {1, 10, 1000}) {
    AttentionInput in = random_input(1, 1, 1, keys, 4, 1);
    in.queries.zero_();
    in.values.fill_(1);
    // n σ(-log n) = n / (1 + n)
    const double n = static_cast<double>(keys);
    EXPECT_NEAR(attended(in).item<double>(), n / (1 + n), 1e-12);
  }
}

TEST(SigmoidAttention, PaddingEqualsAbsence) {
  at::manual_seed(4);
  AttentionInput in = random_input(1, 2, 4, 6, 4, 3);
  in.visible.key_valid = at::arange(6).unsqueeze(0) < 4;
  AttentionInput shorter = in;
  shorter.keys = in.keys.narrow(2, 0, 4), shorter.values = in.values.narrow(2, 0, 4);
  shorter.visible.key_valid = Tensor();
  EXPECT_LT(largest_difference(attended(in), attended(shorter)), 1e-15);
}

TEST(SigmoidAttention, GradientsAreRightTwice) {
  at::manual_seed(5);
  AttentionInput in = random_input(1, 2, 3, 4, 3, 2);
  testing::expect_right_gradients_twice(in, [&](const AttentionInput& x) { return attended(x); });
}

}  // namespace
}  // namespace attnlab::sigmoid_test
