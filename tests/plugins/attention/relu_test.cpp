// ReLU attention: relu(Q Kᵀ / √D)^p / n V.
#include <gtest/gtest.h>

#include "tests/support/attended.h"
#include "tests/support/naive_weights.h"
#include "tests/support/plugins.h"

namespace attnlab::relu_test {
namespace {

using testing::Index;
using testing::largest_difference;
using testing::random_input;

Tensor attended(const AttentionInput& in, const std::string& options = "{}",
                AttentionTrace* trace = nullptr) {
  return testing::attended(*testing::make_attention("relu", testing::shape_of(in), options), in,
                           trace);
}

Tensor naive(const AttentionInput& in, int power) {
  const Tensor logits = testing::naive_logits(in, {.scale = 0.5});
  const Tensor visible = testing::naive_visible(in);
  Tensor weights = at::zeros_like(logits);
  testing::each_pair(logits, [&](Index b, Index h, Index i, Index j) {
    const double logit = logits.accessor<double, 4>()[b][h][i][j];
    if (!visible.accessor<bool, 4>()[b][h][i][j] || logit < 0) return;
    weights.accessor<double, 4>()[b][h][i][j] =
        std::pow(logit, power) / testing::naive_count(visible, b, h, i);
  });
  return testing::weighed(weights, in.values);
}

TEST(ReluAttention, EqualsItsEquationUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [name, in] : testing::one_input_for_each_rule()) {
    const Tensor expected = naive(in, 1), squared = naive(in, 2);
    AttentionTrace trace;
    EXPECT_LT(largest_difference(attended(in), expected), 1e-10) << name;
    EXPECT_LT(largest_difference(attended(in, "{}", &trace), expected), 1e-10) << name;
    EXPECT_LT(largest_difference(attended(in, "{power: 2}"), squared), 1e-10) << name;
    EXPECT_LT(largest_difference(attended(in, "{power: 2}", &trace), squared), 1e-10) << name;
  }
}

TEST(ReluAttention, RefusesOtherPowers) {
  const AttentionInput in = random_input(1, 1, 2, 2, 2, 2);
  EXPECT_THROW(attended(in, "{power: 0}"), ConfigError);
  EXPECT_THROW(attended(in, "{power: 3}"), ConfigError);
}

TEST(ReluAttention, NegativeLogitsWeighNothingAndKeysDoNotCompete) {
  at::manual_seed(2);
  const AttentionInput in = random_input(1, 2, 4, 5, 4, 3);
  AttentionInput louder = in;
  louder.keys = in.keys.clone();
  louder.keys.select(2, 0).mul_(50);
  AttentionTrace trace;
  trace.weights = trace.logits = true;
  attended(in, "{}", &trace);
  attended(louder, "{}", &trace);
  const Tensor before = trace.layers[0].weights, after = trace.layers[1].weights;
  EXPECT_TRUE(at::equal(before.gt(0), trace.layers[0].logits.gt(0)));
  EXPECT_TRUE(before.eq(0).any().item<bool>());
  EXPECT_TRUE(at::equal(before.narrow(3, 1, 4), after.narrow(3, 1, 4)));
  EXPECT_GT(largest_difference(before.narrow(3, 0, 1), after.narrow(3, 0, 1)), 0.1);
}

TEST(ReluAttention, HandsOnWhatIsNotANumber) {
  for (const std::string options : {"{power: 1}", "{power: 2}"}) {
    AttentionInput in = random_input(1, 1, 3, 40, 4, 2);
    in.queries[0][0][1].fill_(NAN);
    const Tensor out = attended(in, options);
    EXPECT_TRUE(out[0][0][1].isnan().all().item<bool>()) << options;
    EXPECT_EQ(out.isnan().sum().item<std::int64_t>(), 2) << options;
  }
}

TEST(ReluAttention, PaddingEqualsAbsence) {
  at::manual_seed(3);
  AttentionInput in = random_input(1, 2, 4, 6, 4, 3);
  in.visible.key_valid = at::arange(6).unsqueeze(0) < 4;
  AttentionInput shorter = in;
  shorter.keys = in.keys.narrow(2, 0, 4), shorter.values = in.values.narrow(2, 0, 4);
  shorter.visible.key_valid = Tensor();
  EXPECT_LT(largest_difference(attended(in), attended(shorter)), 1e-14);
}

TEST(ReluAttention, GradientsAreRightTwice) {
  at::manual_seed(4);
  AttentionInput in = random_input(1, 2, 3, 4, 3, 2);
  for (const std::string power : {"1", "2"}) {
    SCOPED_TRACE(power);
    testing::expect_right_gradients_twice(
        in, [&](const AttentionInput& x) { return attended(x, "{power: " + power + "}"); });
  }
}

}  // namespace
}  // namespace attnlab::relu_test
