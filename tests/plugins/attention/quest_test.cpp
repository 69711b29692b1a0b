// QUEST: softmax(Q K̄ᵀ) V with keys of unit length and no 1/√D.
#include <gtest/gtest.h>

#include "framework/tensor/torch_compat.h"
#include "tests/support/attended.h"
#include "tests/support/gradcheck.h"
#include "tests/support/naive_attention.h"
#include "tests/support/plugins.h"
#include "tests/support/ragged.h"

namespace attnlab::quest_test {
namespace {

using testing::largest_difference;
using testing::naive_attention;
using testing::random_input;

std::shared_ptr<Attention> quest(const AttentionInput& in, const std::string& options = "{}") {
  return testing::make_attention("quest", testing::shape_of(in), options);
}

Tensor attended(const AttentionInput& in, AttentionTrace* trace = nullptr,
                const std::string& options = "{}") {
  return testing::attended(*quest(in, options), in, trace);
}

/// The attention as a function of queries, keys and values, for finite differences.
testing::Differentiable function_of(const AttentionInput& in, bool traced = false) {
  return [in, traced](const std::vector<Tensor>& x) {
    AttentionInput changed = in;
    changed.queries = x[0], changed.keys = x[1], changed.values = x[2];
    AttentionTrace trace;
    return attended(changed, traced ? &trace : nullptr);
  };
}

TEST(QuestAttention, EqualsItsEquationUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [name, in] : testing::one_input_for_each_rule()) {
    const Tensor expected = naive_attention(in, {.scale = 1, .unit_keys = true});
    EXPECT_LT(largest_difference(attended(in), expected), 1e-10) << name;
    AttentionTrace trace;
    EXPECT_LT(largest_difference(attended(in, &trace), expected), 1e-10) << name << ", traced";
  }
}

TEST(QuestAttention, IgnoresKeyNorm) {
  at::manual_seed(2);
  const AttentionInput in = random_input(2, 2, 4, 5, 6, 3);
  AttentionInput scaled = in;
  scaled.keys = in.keys * at::logspace(-3, 3, 5, 10.0, at::kDouble).view({1, 1, 5, 1});
  EXPECT_LT(largest_difference(attended(in), attended(scaled)), 1e-12);
}

TEST(QuestAttention, GradientsOfKeysAreOrthogonalToKeys) {
  at::manual_seed(3);
  AttentionInput in = random_input(2, 2, 4, 5, 6, 3);
  in.keys.requires_grad_();
  attended(in).sin().sum().backward();
  const Tensor gradient = in.keys.grad();
  EXPECT_GT(gradient.abs().max().item<double>(), 1e-3);
  EXPECT_LT((gradient * in.keys.detach()).sum(-1).abs().max().item<double>(), 1e-12);
}

TEST(QuestAttention, SharpensWithQueryNorm) {
  at::manual_seed(4);
  AttentionInput in = random_input(1, 2, 3, 6, 8, 8);
  AttentionTrace trace;
  trace.entropy = true;
  for (const double norm : {0.0, 1.0, 2.0, 4.0, 8.0}) {
    AttentionInput scaled = in;
    scaled.queries = in.queries * norm;
    attended(scaled, &trace);
  }
  EXPECT_NEAR(trace.layers[0].entropy.max().item<double>(), std::log(6.0), 1e-12);
  for (std::size_t i = 1; i < trace.layers.size(); ++i) {
    EXPECT_TRUE((trace.layers[i].entropy < trace.layers[i - 1].entropy).all().item<bool>());
  }
}

TEST(QuestAttention, BoundsLogitsByTheQueryNorm) {
  at::manual_seed(5);
  AttentionInput in = random_input(1, 2, 4, 6, 8, 8);
  in.keys = in.keys * 1e4;
  AttentionTrace trace;
  trace.logits = trace.norms = true;
  attended(in, &trace);
  const LayerTrace& seen = trace.layers[0];
  EXPECT_TRUE((seen.logits.abs().amax(-1) <= seen.query_norms * (1 + 1e-12)).all().item<bool>());
}

TEST(QuestAttention, EpsIsTheFloorOfAKeysNorm) {
  at::manual_seed(6);
  AttentionInput in = random_input(1, 2, 3, 4, 5, 5);
  in.keys.narrow(2, 0, 2).mul_(0.01);
  const Tensor expected = naive_attention(in, {.scale = 1, .unit_keys = true, .eps = 0.5});
  EXPECT_LT(largest_difference(attended(in, nullptr, "{eps: 0.5}"), expected), 1e-10);
  EXPECT_GT(largest_difference(attended(in), expected), 1e-3);
}

TEST(QuestAttention, ZeroKeysGiveUniformWeightsAndFiniteGradients) {
  AttentionInput in = random_input(1, 1, 2, 3, 4, 4);
  in.keys = at::zeros({1, 1, 3, 4}, at::kDouble).requires_grad_();
  const Tensor y = attended(in);
  EXPECT_LT(largest_difference(y.detach(), in.values.mean(2, true).expand({1, 1, 2, 4})), 1e-12);
  y.sum().backward();
  EXPECT_TRUE(in.keys.grad().isfinite().all().item<bool>());
}

TEST(QuestAttention, RowsThatSeeNothingGiveZerosAndFiniteGradients) {
  AttentionInput in = random_input(1, 1, 2, 3, 4, 4);
  in.keys.requires_grad_();
  in.visible.key_valid = at::zeros({1, 3}, at::kBool);
  const Tensor y = attended(in);
  y.sum().backward();
  EXPECT_EQ(y.abs().max().item<double>(), 0);
  EXPECT_EQ(in.keys.grad().abs().max().item<double>(), 0);
}

TEST(QuestAttention, GradientsAreRight) {
  at::manual_seed(7);
  AttentionInput in = random_input(2, 2, 3, 5, 4, 3);
  for (const bool causal : {false, true}) {
    in.visible.causal = causal;
    for (const bool traced : {false, true}) {
      const auto f = function_of(in, traced);
      EXPECT_LT(testing::gradient_error(f, {in.queries, in.keys, in.values}), 1e-7);
    }
  }
}

TEST(QuestAttention, GradientsOfGradientsAreRight) {
  at::manual_seed(8);
  const AttentionInput in = random_input(1, 2, 3, 4, 3, 2);
  for (const bool traced : {false, true}) {
    // LibTorch's own fused kernels are differentiable once.
    if (!traced && compat::kHasFusedAttention) continue;
    const auto f = function_of(in, traced);
    EXPECT_LT(testing::second_gradient_error(f, {in.queries, in.keys, in.values}), 1e-6);
  }
}

TEST(QuestAttention, HugeQueriesStayFinite) {
  AttentionInput in = random_input(1, 1, 3, 4, 4, 2);
  for (Tensor* x : {&in.queries, &in.keys, &in.values}) *x = x->to(at::kFloat);
  in.queries = (in.queries * 1e4).requires_grad_();
  const Tensor y = attended(in);
  y.sum().backward();
  EXPECT_TRUE(y.isfinite().all().item<bool>());
  EXPECT_TRUE(in.queries.grad().isfinite().all().item<bool>());
}

TEST(QuestAttention, RaggedSequencesEqualSeparateOnes) {
  at::manual_seed(9);
  testing::expect_sequences_apart(
      true, [](const auto& in) { return attended(in); },
      [](const auto& one) { return naive_attention(one, {.scale = 1, .unit_keys = true}); });
}

}  // namespace
}  // namespace attnlab::quest_test
