// Kimi delta attention: S ← (I - β k kᵀ) diag(α) S + β k vᵀ.
#include <gtest/gtest.h>

#include <c10/core/GradMode.h>

#include "tests/support/ordered_input.h"

namespace attnlab::kimi_delta_test {
namespace {

using testing::largest_difference;
using testing::OrderedSubject;

Tensor naive(const OrderedSubject& subject, const AttentionInput& in) {
  const auto of = [&](const char* name) { return subject.parameter(name); };
  const std::int64_t channels = in.keys.size(3);
  const Tensor raw = testing::naive_heads(
      testing::naive_linear(testing::naive_linear(in.key_source, of("step.down.weight")),
                            of("step.up.map.weight")),
      2);
  const Tensor logs = testing::each_number(raw, [&](double x, std::int64_t h, std::int64_t c) {
    return -std::exp(testing::number_at(of("decay.log_rates"), h)) *
           testing::naive_softplus(x + testing::number_at(of("decay.bias"), h * channels + c));
  });
  const Tensor betas = testing::naive_sigmoid(
      testing::naive_heads(testing::naive_linear(in.key_source, of("beta.map.weight")), 2));
  const Tensor out = testing::naive_recurrence(
      {testing::naive_direction(in.queries), testing::naive_direction(in.keys),
       testing::naive_silu(in.values), logs, in.visible.key_valid},
      betas);
  const Tensor gate = testing::naive_heads(
      testing::naive_linear(testing::naive_linear(in.query_source, of("gate.down.weight")),
                            of("gate.up.map.weight"), of("gate.up.map.bias")),
      2);
  return testing::naive_sigmoid(gate) * testing::naive_rms_norm(out, of("norm.weight"));
}

TEST(KimiDelta, EqualsItsEquationTokenByToken) {
  at::manual_seed(1);
  testing::expect_equals_equation("kimi_delta", naive);
}

TEST(KimiDelta, AChannelMayForgetAndAnotherRemember) {
  at::manual_seed(2);
  // Token 0 writes under channel 0, token 1 under channel 1, the others under channel 2.
  AttentionInput in = testing::ordered_input(1, 5, 5);
  in.keys.zero_();
  for (const std::int64_t token : {0, 1, 2, 3, 4}) {
    in.keys.select(2, token).select(2, std::min<std::int64_t>(token, 2)).fill_(10);
  }
  const OrderedSubject subject("kimi_delta", in);
  const at::NoGradGuard no_gradients;
  subject.parameter("step.up.map.weight").zero_();
  subject.parameter("decay.log_rates").zero_();
  // softplus(b) of channels 0 to 3 of both heads: 50, 0, 0, 0
  subject.parameter("decay.bias").fill_(-50);
  subject.parameter("decay.bias").view({2, 4}).select(1, 0).fill_(50);
  const auto changed_by = [&](std::int64_t token, std::int64_t asked_channel) {
    AttentionInput asked = in;
    asked.queries = at::zeros_like(in.queries);
    asked.queries.select(3, asked_channel).fill_(10);
    AttentionInput other = asked;
    other.values = in.values.clone();
    other.values.select(2, token).mul_(-1).add_(1);
    return largest_difference(subject(asked).select(2, 4), subject(other).select(2, 4));
  };
  EXPECT_LT(changed_by(0, 0), 1e-12);
  EXPECT_GT(changed_by(1, 1), 1e-2);
}

TEST(KimiDelta, GradientsAreRightTwice) {
  at::manual_seed(3);
  testing::expect_right_gradients("kimi_delta");
}

}  // namespace
}  // namespace attnlab::kimi_delta_test
