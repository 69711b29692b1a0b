// Gated DeltaNet: S ← α (I - β k kᵀ) S + β k vᵀ.
#include <gtest/gtest.h>

#include <c10/core/GradMode.h>

#include "tests/support/ordered_input.h"

namespace attnlab::gated_delta_net_test {
namespace {

using testing::largest_difference;
using testing::OrderedSubject;

Tensor naive(const OrderedSubject& subject, const AttentionInput& in) {
  const auto of = [&](const char* name) { return subject.parameter(name); };
  const auto of_keys = [&](const char* name) {
    return testing::naive_heads(testing::naive_linear(in.key_source, of(name)), 2);
  };
  const Tensor logs =
      testing::each_number(of_keys("step.map.weight"), [&](double x, std::int64_t h, std::int64_t) {
        return -std::exp(testing::number_at(of("decay.log_rates"), h)) *
               testing::naive_softplus(x + testing::number_at(of("decay.bias"), h));
      });
  const Tensor out = testing::naive_recurrence(
      {testing::naive_direction(in.queries), testing::naive_direction(in.keys),
       testing::naive_silu(in.values), logs, in.visible.key_valid},
      testing::naive_sigmoid(of_keys("beta.map.weight")));
  const Tensor gate =
      testing::naive_heads(testing::naive_linear(in.query_source, of("gate.map.weight")), 2);
  return testing::naive_rms_norm(out, of("norm.weight")) * testing::naive_silu(gate);
}

TEST(GatedDeltaNet, EqualsItsEquationTokenByToken) {
  at::manual_seed(1);
  testing::expect_equals_equation("gated_delta_net", naive);
}

TEST(GatedDeltaNet, AHeadMayForgetAndAnotherRemember) {
  at::manual_seed(2);
  const AttentionInput in = testing::ordered_input(1, 6, 6);
  AttentionInput other = in;
  other.values = in.values.clone();
  other.values.narrow(2, 0, 5).add_(1);
  const OrderedSubject subject("gated_delta_net", in);
  const at::NoGradGuard no_gradients;
  subject.parameter("decay.log_rates").copy_(at::tensor({30.0, -10.0}, at::kDouble));
  const Tensor y = subject(in).select(2, 5), changed = subject(other).select(2, 5);
  EXPECT_LT(largest_difference(y.select(1, 0), changed.select(1, 0)), 1e-12);
  EXPECT_GT(largest_difference(y.select(1, 1), changed.select(1, 1)), 1e-2);
}

TEST(GatedDeltaNet, GradientsAreRightTwice) {
  at::manual_seed(3);
  testing::expect_right_gradients("gated_delta_net");
}

}  // namespace
}  // namespace attnlab::gated_delta_net_test
