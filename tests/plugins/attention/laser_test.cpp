// LASER attention: log(softmax(Q Kᵀ / √D) exp(V)).
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/support/attended.h"
#include "tests/support/kernel_choice.h"
#include "tests/support/naive_weights.h"
#include "tests/support/plugins.h"
#include "tests/support/ragged.h"

namespace attnlab::laser_test {
namespace {

using testing::largest_difference;
using testing::random_input;

Tensor attended(const AttentionInput& in, AttentionTrace* trace = nullptr) {
  return testing::attended(*testing::make_attention("laser", testing::shape_of(in)), in, trace);
}

Tensor naive(const AttentionInput& in) {
  // One half-step is a softmax.
  const Tensor weights = testing::naive_sinkhorn(testing::naive_logits(in, {.scale = 0.5}),
                                                 testing::naive_visible(in), {.max_iter = 1});
  const Tensor sums = testing::weighed(weights, in.values.exp());
  return sums.log().masked_fill(sums.eq(0), 0);  // of queries that see nothing
}

TEST(LaserAttention, EqualsItsEquationUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [name, in] : testing::one_input_for_each_rule()) {
    const Tensor expected = naive(in);
    EXPECT_LT(largest_difference(attended(in), expected), 1e-10) << name;
    AttentionTrace trace;
    EXPECT_LT(largest_difference(attended(in, &trace), expected), 1e-10) << name;
    const testing::KernelChoice headwise(AttentionKernel::headwise);
    EXPECT_LT(largest_difference(attended(in), expected), 1e-10) << name << ", headwise";
  }
}

TEST(LaserAttention, KeepsSequencesOfARaggedBatchApart) {
  at::manual_seed(2);
  const auto run = [](const AttentionInput& in) { return attended(in); };
  for (const bool causal : {false, true}) testing::expect_sequences_apart(causal, run, run);
}

TEST(LaserAttention, LiesBetweenTheMeanAndTheMaximumAndMovesWithTheValues) {
  at::manual_seed(3);
  AttentionInput in = random_input(2, 2, 4, 6, 4, 3);
  const Tensor out = attended(in);
  EXPECT_TRUE(out.gt(testing::naive_attention(in, {.scale = 0.5})).all().item<bool>());
  EXPECT_TRUE(out.lt(in.values.amax(2, true)).all().item<bool>());
  for (const double shift : {-1000.0, 1000.0}) {
    AttentionInput moved = in;
    moved.values = in.values + shift;
    EXPECT_LT(largest_difference(attended(moved) - shift, out), 1e-12);
  }
}

TEST(LaserAttention, CountsValuesFarBelowTheLargestAsALittleLarger) {
  at::manual_seed(9);
  for (const bool is_double : {false, true}) {
    AttentionInput in = random_input(1, 1, 2, 2, 1, 1);
    in.visible.causal = true;
    in.values[0][0][0][0] = -5000;
    in.values[0][0][1][0] = 0;
    if (!is_double) {
      for (Tensor* x : {&in.queries, &in.keys, &in.values}) *x = x->to(at::kFloat);
    }
    for (Tensor* x : {&in.queries, &in.keys, &in.values}) x->requires_grad_();
    const Tensor out = attended(in);
    EXPECT_NEAR(out[0][0][0][0].item<double>(), is_double ? -667 : -69, 1e-3);
    EXPECT_LT(out[0][0][1][0].item<double>(), 0);
    EXPECT_GT(out[0][0][1][0].item<double>(), -20);
    out.sum().backward();
    for (const Tensor* x : {&in.queries, &in.keys, &in.values}) {
      EXPECT_TRUE(x->grad().isfinite().all().item<bool>());
    }
    EXPECT_EQ(in.values.grad()[0][0][0][0].item<double>(), 0);
  }
}

TEST(LaserAttention, LearnsNothingOfLaterTokens) {
  at::manual_seed(4);
  AttentionInput in = random_input(1, 2, 4, 4, 4, 3);
  in.visible.causal = true;
  in.values.requires_grad_();
  const Tensor out = attended(in);
  const Tensor gradient = torch::autograd::grad({out.narrow(2, 0, 2).sum()}, {in.values})[0];
  EXPECT_EQ(gradient.narrow(2, 2, 2).abs().max().item<double>(), 0);
  EXPECT_GT(gradient.narrow(2, 0, 2).abs().min().item<double>(), 0);
  AttentionInput later = in;
  later.values = in.values.detach().clone();
  later.values.narrow(2, 2, 2).mul_(100);
  EXPECT_LT(largest_difference(attended(later).narrow(2, 0, 2), out.narrow(2, 0, 2)), 1e-10);
}

TEST(LaserAttention, KeysThatNobodySeesHaveNoPart) {
  at::manual_seed(5);
  AttentionInput in = random_input(1, 2, 3, 5, 4, 3);
  in.visible.key_valid = at::arange(5).unsqueeze(0) < 4;
  in.visible.pairs = at::ones({2, 1, 5}, at::kBool);
  in.visible.pairs.select(2, 0).fill_(false);
  AttentionInput other = in;
  other.values = in.values.clone();
  for (const std::int64_t key : {0, 4}) other.values.select(2, key).fill_(1e6);
  EXPECT_TRUE(at::equal(attended(other), attended(in)));
}

TEST(LaserAttention, DropsWeightsBeforeTheLogarithm) {
  at::manual_seed(6);
  AttentionInput in = random_input(1, 1, 200, 1, 4, 1);
  AttentionShape shape = testing::shape_of(in);
  shape.dropout = 0.5;
  const auto attention = testing::make_attention("laser", shape);
  attention->train(true);
  AttentionContext context;
  const Tensor out = attention->forward(in, context);
  const Tensor dropped = out.eq(0);
  EXPECT_TRUE(dropped.any().item<bool>());
  EXPECT_FALSE(dropped.all().item<bool>());
  // The one key's weight is 1, and 1 / (1 - p) where it stays.
  const Tensor kept = out.masked_select(dropped.logical_not());
  EXPECT_LT((kept - in.values.item<double>() - std::log(2.0)).abs().max().item<double>(), 1e-12);
}

TEST(LaserAttention, ATraceHasLogitsAndNoWeights) {
  at::manual_seed(7);
  const AttentionInput in = random_input(1, 2, 3, 4, 4, 3);
  AttentionTrace trace;
  trace.weights = trace.logits = trace.entropy = true;
  attended(in, &trace);
  ASSERT_EQ(trace.layers.size(), 1u);
  EXPECT_FALSE(trace.layers[0].weights.defined());
  EXPECT_LT(largest_difference(trace.layers[0].logits, testing::naive_logits(in, {.scale = 0.5})),
            1e-12);
  EXPECT_TRUE(trace.layers[0].entropy.gt(0).all().item<bool>());
  EXPECT_TRUE(trace.weights);
}

TEST(LaserAttention, HasNoOptionsAndLearnsNothing) {
  const AttentionShape shape{.heads = 2, .head_dim = 4};
  EXPECT_EQ(testing::parameter_count(*testing::make_attention("laser", shape)), 0);
  EXPECT_THROW(testing::make_attention("laser", shape, "{eps: 1}"), ConfigError);
}

TEST(LaserAttention, GradientsAreRightTwice) {
  at::manual_seed(8);
  AttentionInput in = random_input(1, 2, 3, 4, 3, 2);
  testing::expect_right_gradients_twice(in, [&](const AttentionInput& x) { return attended(x); });
}

}  // namespace
}  // namespace attnlab::laser_test
