// Differential attention: (1 - λ₀) RMSNorm((A₁ - λ A₂) V).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/support/sourced_input.h"

namespace attnlab::differential_test {
namespace {

using testing::attended;
using testing::largest_difference;

constexpr AttentionTraits kTraits = AttentionTraits::all_quadratic();

double start_of(std::int64_t layer) {
  return 0.8 - 0.6 * std::exp(-0.3 * static_cast<double>(layer));
}

testing::Row parameter(const Attention& attention, const std::string& name) {
  return testing::row(attention.named_parameters()[name]);
}

double naive_lambda(const Attention& attention, std::int64_t layer) {
  const auto exponential = [&](const char* a, const char* b) {
    return std::exp(testing::dot(parameter(attention, a), parameter(attention, b)));
  };
  return exponential("lambda_q1", "lambda_k1") - exponential("lambda_q2", "lambda_k2") +
         start_of(layer);
}

/// Softmax attention of one half of the channels, of which there are four.
Tensor naive_half(AttentionInput in, std::int64_t which) {
  for (Tensor* x : {&in.queries, &in.keys, &in.relative.keys, &in.relative.content_bias,
                    &in.relative.position_bias}) {
    if (x->defined()) *x = x->narrow(-1, 2 * which, 2).contiguous();
  }
  return testing::naive_attention(in, {.scale = 1 / std::sqrt(2.0)});
}

Tensor naive(const Attention& attention, const AttentionInput& in, std::int64_t layer) {
  const double lambda = naive_lambda(attention, layer);
  const testing::Row factors = parameter(attention, "norm.weight");
  const Tensor difference = naive_half(in, 0) - lambda * naive_half(in, 1);
  Tensor out = at::zeros_like(difference);
  auto to = out.accessor<double, 4>();
  testing::each_pair(out, [&](auto b, auto h, auto i, auto c) {
    const testing::Row o = testing::row(difference, {b, h, i});
    const double rms = std::sqrt(testing::dot(o, o) / static_cast<double>(o.size()) + 1e-5);
    const auto channel = static_cast<std::size_t>(c);
    to[b][h][i][c] = (1 - start_of(layer)) * factors[channel] * o[channel] / rms;
  });
  return out;
}

TEST(DifferentialAttention, HonoursEveryInputOfTheContract) {
  const AttentionShape shape{.heads = 2, .head_dim = 4};
  EXPECT_EQ(testing::make_attention("differential", shape)->traits(), kTraits);
}

TEST(DifferentialAttention, EqualsItsEquationUnderEveryRule) {
  at::manual_seed(1);
  for (const std::int64_t layer : {0, 3}) {
    for (const auto& [name, in] : testing::inputs_for(kTraits)) {
      const auto attention = testing::drawn_attention("differential", in, "{}", layer);
      const Tensor expected = naive(*attention, in, layer);
      EXPECT_LT(largest_difference(attended(*attention, in), expected), 1e-8) << name;
      AttentionTrace trace;
      EXPECT_LT(largest_difference(attended(*attention, in, &trace), expected), 1e-8) << name;
    }
  }
}

TEST(DifferentialAttention, WhatBothSoftmaxesAttendToCancelsWhereLambdaIsOne) {
  at::manual_seed(2);
  AttentionInput in = testing::small_input(kTraits, 4);
  for (Tensor* x : {&in.queries, &in.keys}) *x = x->narrow(3, 0, 2).repeat({1, 1, 1, 2});
  const auto attention = testing::drawn_attention("differential", in);
  const auto set = [&](const char* name, double value) {
    const at::NoGradGuard no_gradients;
    Tensor(attention->named_parameters()[name]).fill_(value);
  };
  // λ = exp(2 a b) - exp(0) + λ₀
  set("lambda_q2", 0);
  set("lambda_q1", 0.5);
  set("lambda_k1", std::log(2 - start_of(0)));
  EXPECT_NEAR(naive_lambda(*attention, 0), 1, 1e-12);
  EXPECT_LT(attended(*attention, in).abs().max().item<double>(), 1e-10);
  set("lambda_k1", 0);  // λ = λ₀
  EXPECT_GT(attended(*attention, in).abs().max().item<double>(), 0.1);
}

TEST(DifferentialAttention, StartsAsPublished) {
  at::manual_seed(3);
  AttentionInput in = testing::random_input(2, 2, 5, 5, 64, 32);
  for (const std::int64_t layer : {0, 5}) {
    const auto attention =
        testing::make_attention("differential", testing::sourced_shape(in, layer));
    attention->to(at::kDouble);
    attention->eval();
    EXPECT_EQ(testing::parameter_count(*attention), 4 * 32 + 32);
    const double std = Tensor(attention->named_parameters()["lambda_q1"]).std().item<double>();
    EXPECT_NEAR(std, 0.1, 0.06);
    // Rows have a root mean square of 1 - λ₀, whatever λ is.
    const Tensor rms = attended(*attention, in).square().mean(-1).sqrt();
    EXPECT_LT((rms - (1 - start_of(layer))).abs().max().item<double>(), 1e-3);
  }
}

TEST(DifferentialAttention, RefusesHeadsWithoutHalves) {
  const std::string message = testing::message_of<ConfigError>(
      [] { testing::make_attention("differential", {.heads = 2, .head_dim = 5}); });
  EXPECT_THAT(message, ::testing::HasSubstr("heads of an even width"));
}

TEST(DifferentialAttention, RecordsNormsAlone) {
  at::manual_seed(4);
  const AttentionInput in = testing::small_input(kTraits, 4);
  const auto attention = testing::drawn_attention("differential", in);
  const LayerTrace seen = testing::traced(*attention, in);
  EXPECT_LT(largest_difference(seen.query_norms, in.queries.norm(2, -1)), 1e-12);
  EXPECT_LT(largest_difference(seen.key_norms, in.keys.norm(2, -1)), 1e-12);
  EXPECT_FALSE(seen.weights.defined() || seen.logits.defined() || seen.entropy.defined());
}

TEST(DifferentialAttention, GradientsAreRightTwice) {
  at::manual_seed(5);
  AttentionInput in = testing::small_input(kTraits, 3);
  const auto attention = testing::drawn_attention("differential", in);
  for (const bool causal : {false, true}) {
    in.visible.causal = causal;
    testing::expect_gradients_right(
        *attention, in, {&AttentionInput::queries, &AttentionInput::keys, &AttentionInput::values});
  }
}

}  // namespace
}  // namespace attnlab::differential_test
