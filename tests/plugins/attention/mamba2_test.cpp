// Mamba-2 as an attention: S ← exp(-A Δ) S + Δ k vᵀ, and a skip.
#include <gtest/gtest.h>

#include <c10/core/GradMode.h>

#include "tests/support/ordered_input.h"

namespace attnlab::mamba2_test {
namespace {

using testing::largest_difference;
using testing::OrderedSubject;

/// D_h v of each query's own place, 0 where there is no key or an absent one.
Tensor naive_skip(const AttentionInput& in, const Tensor& values, const Tensor& factors) {
  Tensor out = at::zeros({in.batch(), in.heads(), in.query_count(), values.size(3)}, at::kDouble);
  auto to = out.accessor<double, 4>();
  const auto from = values.accessor<double, 4>();
  testing::each_pair(out, [&](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c) {
    const std::int64_t place = i + in.key_count() - in.query_count();
    const Tensor& valid = in.visible.key_valid;
    if (place < 0 || (valid.defined() && !valid[b][place].item<bool>())) return;
    to[b][h][i][c] = testing::number_at(factors, h) * from[b][h][place][c];
  });
  return out;
}

Tensor naive(const OrderedSubject& subject, const AttentionInput& in) {
  const auto of = [&](const char* name) { return subject.parameter(name); };
  const Tensor steps = testing::each_number(
      testing::naive_heads(testing::naive_linear(in.key_source, of("step.map.weight")), 2),
      [&](double x, std::int64_t h, std::int64_t) {
        return testing::naive_softplus(x + testing::number_at(of("decay.bias"), h));
      });
  const Tensor logs = testing::each_number(steps, [&](double x, std::int64_t h, std::int64_t) {
    return -std::exp(testing::number_at(of("decay.log_rates"), h)) * x;
  });
  const Tensor values = testing::naive_silu(in.values);
  const Tensor out = testing::naive_recurrence({testing::naive_silu(in.queries),
                                                testing::naive_silu(in.keys) * steps, values, logs,
                                                in.visible.key_valid}) +
                     naive_skip(in, values, of("skip"));
  const Tensor gate =
      testing::naive_heads(testing::naive_linear(in.query_source, of("gate.map.weight")), 2);
  return testing::naive_rms_norm(out * testing::naive_silu(gate), of("norm.weight"));
}

TEST(Mamba2, EqualsItsEquationTokenByToken) {
  at::manual_seed(1);
  testing::expect_equals_equation("mamba2", naive);
}

TEST(Mamba2, AStepOfZeroWritesNothingAndForgetsNothing) {
  at::manual_seed(2);
  AttentionInput in = testing::ordered_input(1, 6, 6);
  const OrderedSubject subject("mamba2", in);
  const at::NoGradGuard no_gradients;
  // Δ = softplus(-1000) = 0 where the source is 0, softplus(1) where it is 1.
  subject.parameter("step.map.weight").zero_().select(1, 0).fill_(1001);
  subject.parameter("decay.bias").fill_(-1000);
  in.key_source.zero_();
  in.key_source.select(1, 1).select(1, 0).fill_(1);  // token 1 alone writes
  const auto changed_by = [&](std::int64_t token) {
    AttentionInput other = in;
    other.values = in.values.clone();
    other.values.select(2, token).mul_(-1).add_(1);
    return largest_difference(subject(in).select(2, 5), subject(other).select(2, 5));
  };
  for (const std::int64_t token : {0, 2, 3, 4}) EXPECT_EQ(changed_by(token), 0) << token;
  EXPECT_GT(changed_by(1), 1e-2);
  EXPECT_GT(changed_by(5), 1e-2);  // the query's own, by the skip
}

TEST(Mamba2, GradientsAreRightTwice) {
  at::manual_seed(3);
  testing::expect_right_gradients("mamba2");
}

}  // namespace
}  // namespace attnlab::mamba2_test
