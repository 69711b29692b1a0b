// Retention: S ← γ_h S + k vᵀ.
#include <gtest/gtest.h>

#include <c10/core/GradMode.h>

#include "tests/support/ordered_input.h"

namespace attnlab::retention_test {
namespace {

using testing::largest_difference;
using testing::OrderedSubject;

/// 1 - 2^(-5-h)
double decay_of(std::int64_t head) { return 1 - std::pow(2.0, -5.0 - double(head)); }

Tensor naive(const OrderedSubject& subject, const AttentionInput& in) {
  const Tensor logs = testing::each_number(
      in.keys.narrow(3, 0, 1),
      [](double, std::int64_t h, std::int64_t) { return std::log(decay_of(h)); });
  const Tensor out =
      testing::naive_recurrence({in.queries, in.keys, in.values, logs, in.visible.key_valid});
  const Tensor gate = testing::naive_heads(
      testing::naive_linear(in.query_source, subject.parameter("gate.map.weight")), 2);
  return testing::naive_silu(gate) * testing::naive_layer_norm(out);
}

TEST(Retention, EqualsItsEquationTokenByToken) {
  at::manual_seed(1);
  testing::expect_equals_equation("retention", naive);
}

TEST(Retention, HeadsForgetAtTheirOwnPace) {
  // Keys and queries alike; the first token's value stands in channel 0, the last's in channel 1.
  constexpr std::int64_t kLast = 100;
  AttentionInput in = testing::ordered_input(1, kLast + 1, kLast + 1, 4, 3);
  in.queries.fill_(1), in.keys.fill_(1), in.values.zero_();
  in.values.select(2, 0).select(2, 0).fill_(1);
  in.values.select(2, kLast).select(2, 1).fill_(1);
  in.query_source.fill_(1);
  const OrderedSubject subject("retention", in);
  const at::NoGradGuard no_gradients;
  subject.parameter("gate.map.weight").fill_(1);  // the same gate for all channels
  const Tensor y = subject(in).select(2, kLast);
  for (const std::int64_t head : {0, 1}) {
    const testing::Row r = testing::row(y, {0, head});
    // The norm shifts and scales all channels alike.
    EXPECT_NEAR((r[0] - r[2]) / (r[1] - r[2]), std::pow(decay_of(head), double(kLast)), 1e-9);
  }
}

TEST(Retention, MembersOfAnEnsembleHaveTheDecaysOfOneModel) {
  at::manual_seed(2);
  AttentionInput in = testing::ordered_input(1, 9, 9);
  for (Tensor* x : {&in.queries, &in.keys, &in.values}) *x = x->repeat({1, 2, 1, 1});
  for (Tensor* x : {&in.query_source, &in.key_source, &in.value_source}) *x = x->repeat({2, 1, 1});
  AttentionShape shape = testing::shape_of(in);
  shape.members = 2;
  shape.query_width = testing::kQueryWidth, shape.key_width = testing::kKeyWidth;
  shape.value_width = testing::kValueWidth;
  const auto attention = testing::make_attention("retention", shape);
  attention->to(at::kDouble);
  const at::NoGradGuard no_gradients;
  for (Tensor& p : attention->parameters()) p.fill_(0.1);
  AttentionContext context;
  const Tensor y = attention->forward(in, context);
  EXPECT_LT(largest_difference(y.narrow(1, 0, 2), y.narrow(1, 2, 2)), 1e-14);
  EXPECT_GT(y.abs().max().item<double>(), 1e-3);
}

TEST(Retention, GradientsAreRightTwice) {
  at::manual_seed(3);
  testing::expect_right_gradients("retention");
}

}  // namespace
}  // namespace attnlab::retention_test
