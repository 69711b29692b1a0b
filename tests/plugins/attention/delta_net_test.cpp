// DeltaNet: S ← (I - β k kᵀ) S + β k vᵀ.
#include <gtest/gtest.h>

#include <c10/core/GradMode.h>

#include "tests/support/ordered_input.h"

namespace attnlab::delta_net_test {
namespace {

using testing::largest_difference;
using testing::OrderedSubject;

Tensor naive(const OrderedSubject& subject, const AttentionInput& in) {
  const Tensor betas = testing::naive_sigmoid(testing::naive_heads(
      testing::naive_linear(in.key_source, subject.parameter("beta.map.weight")), 2));
  const Tensor out = testing::naive_recurrence(
      {testing::naive_direction(in.queries), testing::naive_direction(in.keys), in.values, Tensor(),
       in.visible.key_valid},
      betas);
  return testing::naive_rms_norm(out, subject.parameter("norm.weight"));
}

TEST(DeltaNet, EqualsItsEquationTokenByToken) {
  at::manual_seed(1);
  testing::expect_equals_equation("delta_net", naive);
}

TEST(DeltaNet, ALaterValueTakesTheEarlierOnesPlaceUnderTheSameKeyAlone) {
  at::manual_seed(2);
  // Keys of tokens 0, 1, 2 along channels 0, 1, 0; SiLU(10) is 10, SiLU(0) is 0.
  AttentionInput in = testing::ordered_input(1, 4, 4);
  in.keys.zero_();
  for (const auto& [token, channel] : {std::pair(0, 0), std::pair(1, 1), std::pair(2, 0)}) {
    in.keys.select(2, token).select(2, channel).fill_(10);
  }
  in.keys.select(2, 3).select(2, 2).fill_(10);
  in.key_source.fill_(1);
  const OrderedSubject subject("delta_net", in);
  const at::NoGradGuard no_gradients;
  subject.parameter("beta.map.weight").fill_(10);  // β = σ(60)
  const auto changed_by = [&](std::int64_t token, std::int64_t asked_channel) {
    AttentionInput asked = in;
    asked.queries = at::zeros_like(in.queries);
    asked.queries.select(3, asked_channel).fill_(10);
    AttentionInput other = asked;
    other.values = in.values.clone();
    other.values.select(2, token).mul_(-1).add_(1);
    return largest_difference(subject(asked).select(2, 3), subject(other).select(2, 3));
  };
  EXPECT_LT(changed_by(0, 0), 1e-5);  // overwritten by token 2
  EXPECT_GT(changed_by(2, 0), 1e-2);
  EXPECT_GT(changed_by(1, 1), 1e-2);  // nobody wrote there again
  EXPECT_LT(changed_by(1, 0), 1e-5);
}

TEST(DeltaNet, HugeInputsStayFinite) {
  at::manual_seed(3);
  AttentionInput in = testing::ordered_input(1, 70, 70);
  const OrderedSubject subject("delta_net", in);
  subject.attention().to(at::kFloat);
  for (Tensor* x : {&in.queries, &in.keys, &in.values}) *x = (*x * 1e4).to(at::kFloat);
  for (Tensor* x : {&in.query_source, &in.key_source, &in.value_source}) *x = x->to(at::kFloat);
  in.keys.requires_grad_();
  const Tensor y = subject(in);
  y.sum().backward();
  EXPECT_TRUE(y.isfinite().all().item<bool>());
  EXPECT_TRUE(in.keys.grad().isfinite().all().item<bool>());
}

TEST(DeltaNet, GradientsAreRightTwice) {
  at::manual_seed(4);
  testing::expect_right_gradients("delta_net");
}

}  // namespace
}  // namespace attnlab::delta_net_test
