// Gated linear attention: S ← diag(α(X)) S + k vᵀ.
#include <gtest/gtest.h>

#include <c10/core/GradMode.h>

#include "tests/support/ordered_input.h"

namespace attnlab::gated_linear_attention_test {
namespace {

using testing::largest_difference;
using testing::OrderedSubject;

Tensor naive(const OrderedSubject& subject, const AttentionInput& in) {
  const auto of = [&](const char* name) { return subject.parameter(name); };
  const Tensor low = testing::naive_linear(in.key_source, of("decay.down.weight"));
  EXPECT_EQ(low.size(2), 16);
  const Tensor raw = testing::naive_heads(
      testing::naive_linear(low, of("decay.up.map.weight"), of("decay.up.map.bias")), 2);
  const Tensor logs = testing::each_number(raw, [](double x, std::int64_t, std::int64_t) {
    return std::log(std::pow(testing::naive_sigmoid(x), 1.0 / 16));
  });
  const Tensor out =
      testing::naive_recurrence({in.queries, in.keys, in.values, logs, in.visible.key_valid});
  const Tensor gate = testing::naive_heads(
      testing::naive_linear(in.query_source, of("gate.map.weight"), of("gate.map.bias")), 2);
  return testing::naive_silu(gate) * testing::naive_layer_norm(out);
}

TEST(GatedLinearAttention, EqualsItsEquationTokenByToken) {
  at::manual_seed(1);
  testing::expect_equals_equation("gated_linear_attention", naive);
}

TEST(GatedLinearAttention, ADecayOfZeroForgetsAllButTheTokenItself) {
  at::manual_seed(2);
  const AttentionInput in = testing::ordered_input(1, 6, 6);
  AttentionInput other = in;
  other.values = in.values.clone();
  other.values.narrow(2, 0, 5).mul_(-2);  // (the norm does not see what is added to all)
  const OrderedSubject subject("gated_linear_attention", in);
  const auto last = [&](const AttentionInput& input) { return subject(input).select(2, 5); };
  EXPECT_GT(largest_difference(last(in), last(other)), 1e-2);
  const at::NoGradGuard no_gradients;
  subject.parameter("decay.up.map.weight").zero_();
  subject.parameter("decay.up.map.bias").fill_(-1e5);  // α = exp(-1e5 / 16)
  EXPECT_EQ(largest_difference(last(in), last(other)), 0);
}

TEST(GatedLinearAttention, GradientsAreRightTwice) {
  at::manual_seed(3);
  testing::expect_right_gradients("gated_linear_attention");
}

}  // namespace
}  // namespace attnlab::gated_linear_attention_test
