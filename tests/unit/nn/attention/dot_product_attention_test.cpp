// Dot-product attention against its definition, for every rule of the contract and both kernels.
//
// With a trace the explicit kernel runs, without one the fused kernel where it can: each rule is
// checked both ways.
#include "framework/nn/attention/dot_product_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/attended.h"
#include "tests/support/gradcheck.h"
#include "tests/support/naive_attention.h"
#include "tests/unit/nn/attention/plain_attention.h"

namespace attnlab::dot_product_attention_test {
namespace {

using testing::attended;
using testing::gradient_error;
using testing::largest_difference;
using testing::naive_attention;
using testing::NamedInput;
using testing::of_tokens;
using testing::one_input_for_each_rule;
using testing::plain_attention;
using testing::random_input;
using testing::second_gradient_error;

constexpr double kTolerance = 1e-10;

TEST(DotProductAttention, EqualsItsDefinitionUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [name, in] : one_input_for_each_rule()) {
    const Tensor expected = naive_attention(in, {.scale = 0.5});
    EXPECT_LT(largest_difference(attended(*plain_attention(in), in), expected), kTolerance) << name;
  }
}

TEST(DotProductAttention, EqualsItsDefinitionUnderEveryRuleWhileTraced) {
  at::manual_seed(2);
  for (const auto& [name, in] : one_input_for_each_rule()) {
    AttentionTrace trace;
    const Tensor expected = naive_attention(in, {.scale = 0.5});
    EXPECT_LT(largest_difference(attended(*plain_attention(in), in, &trace), expected), kTolerance)
        << name;
    EXPECT_EQ(trace.layers.size(), 1u) << name;
  }
}

TEST(DotProductAttention, GradientsAreRightUnderEveryRule) {
  at::manual_seed(3);
  for (const NamedInput& given : one_input_for_each_rule()) {
    for (const bool traced : {false, true}) {
      const AttentionInput& in = given.input;
      const auto attention = plain_attention(in, {.scale = 0.7});
      std::vector<Tensor> inputs = {in.queries, in.keys, in.values};
      if (in.bias.defined()) inputs.push_back(in.bias);
      if (in.relative.defined()) inputs.push_back(in.relative.keys);
      const auto f = [&](const std::vector<Tensor>& x) {
        AttentionInput changed = in;
        std::size_t n = 3;
        changed.queries = x[0], changed.keys = x[1], changed.values = x[2];
        if (in.bias.defined()) changed.bias = x[n++];
        if (in.relative.defined()) changed.relative.keys = x[n++];
        AttentionTrace trace;
        return attended(*attention, changed, traced ? &trace : nullptr);
      };
      EXPECT_LT(gradient_error(f, inputs), 1e-7) << given.name << (traced ? ", traced" : "");
    }
  }
}

TEST(DotProductAttention, GradientsOfGradientsAreRight) {
  at::manual_seed(4);
  for (const bool traced : {false, true}) {
    AttentionInput in = random_input(1, 2, 3, 4, 3, 2);
    in.visible.pairs = at::rand({3, 4}) < 0.7;
    in.visible.pairs[1].fill_(false);
    const auto attention = plain_attention(in);
    const auto f = of_tokens(in, [&](const AttentionInput& changed) {
      AttentionTrace trace;
      return attended(*attention, changed, traced ? &trace : nullptr);
    });
    EXPECT_LT(second_gradient_error(f, {in.queries, in.keys, in.values}), 1e-6) << traced;
  }
}

TEST(DotProductAttention, ReadsViewsOfOnePackedProjection) {
  at::manual_seed(5);
  const Tensor packed = at::randn({2, 6, 3, 4, 8}, at::kDouble);
  const auto piece = [&](int i) { return packed.select(2, i).transpose(1, 2); };
  AttentionInput in;
  in.queries = piece(0), in.keys = piece(1);
  const Tensor columns = piece(2).transpose(2, 3).contiguous().transpose(2, 3);
  for (const Tensor& values : {piece(2), columns}) {  // rows are contiguous, then columns
    in.values = values;
    EXPECT_LT(largest_difference(attended(*plain_attention(in), in),
                                 naive_attention(in, {.scale = 1 / std::sqrt(8.0)})),
              kTolerance);
  }
}

TEST(DotProductAttention, FloatAgreesWithDoubleAcrossManyHeads) {
  at::manual_seed(6);
  AttentionInput in = random_input(3, 5, 70, 90, 16, 12);
  const Tensor expected = attended(*plain_attention(in), in);
  for (Tensor* x : {&in.queries, &in.keys, &in.values}) *x = x->to(at::kFloat);
  const Tensor y = attended(*plain_attention(in), in);
  EXPECT_EQ(y.scalar_type(), at::kFloat);
  EXPECT_LT(largest_difference(y, expected), 1e-5);
  for (Tensor* x : {&in.queries, &in.keys, &in.values}) *x = x->to(at::kBFloat16);
  in.visible.pairs = at::ones({70, 90}, at::kBool);
  const Tensor coarse = attended(*plain_attention(in), in);
  EXPECT_EQ(coarse.scalar_type(), at::kBFloat16);
  EXPECT_LT(largest_difference(coarse, expected), 0.05);
}

TEST(DotProductAttention, InferenceEqualsTraining) {
  at::manual_seed(7);
  for (const auto& [name, given] : one_input_for_each_rule()) {
    AttentionInput in = given;
    in.queries = in.queries.clone().requires_grad_();
    const auto attention = plain_attention(in);
    const Tensor learning = attended(*attention, in);
    EXPECT_TRUE(learning.requires_grad()) << name;
    const at::NoGradGuard no_gradients;
    const Tensor y = attended(*attention, in);
    EXPECT_FALSE(y.requires_grad()) << name;
    EXPECT_EQ(largest_difference(y, learning.detach()), 0) << name;
  }
}

TEST(DotProductAttention, RowsThatSeeNothingGiveZerosAndFiniteGradients) {
  at::manual_seed(8);
  for (const bool traced : {false, true}) {
    AttentionInput in = random_input(1, 2, 3, 4, 3, 2);
    for (Tensor* x : {&in.queries, &in.keys, &in.values}) *x = x->clone().requires_grad_();
    in.visible.key_valid = at::zeros({1, 4}, at::kBool);
    AttentionTrace trace;
    const Tensor y = attended(*plain_attention(in), in, traced ? &trace : nullptr);
    EXPECT_EQ(y.abs().max().item<double>(), 0);
    y.sum().backward();
    for (const Tensor& x : {in.queries, in.keys, in.values}) {
      EXPECT_EQ(x.grad().abs().max().item<double>(), 0);
    }
  }
}

TEST(DotProductAttention, HugeLogitsStayFinite) {
  for (const double size : {1e4, -1e4}) {
    AttentionInput in = random_input(1, 1, 3, 3, 1, 2);
    for (Tensor* x : {&in.queries, &in.keys, &in.values}) *x = x->to(at::kFloat).requires_grad_();
    {
      const at::NoGradGuard no_gradients;
      in.queries.fill_(100);
      in.keys.copy_(at::tensor({size / 100, size / 50, -size / 100}).view({1, 1, 3, 1}));
    }
    in.visible.causal = true;
    const Tensor y = attended(*plain_attention(in, {.scale = 1.0}), in);
    y.sum().backward();
    EXPECT_TRUE(y.isfinite().all().item<bool>());
    EXPECT_TRUE(in.queries.grad().isfinite().all().item<bool>());
    const std::int64_t winner = size > 0 ? 1 : 2;
    EXPECT_LT(largest_difference(y[0][0][2], in.values[0][0][winner]), 1e-6);
  }
}

TEST(DotProductAttention, OneTokenSeesItself) {
  const AttentionInput in = random_input(2, 3, 1, 1, 4, 4);
  EXPECT_EQ(largest_difference(attended(*plain_attention(in), in), in.values), 0);
}

TEST(DotProductAttention, NoKeysGiveZeros) {
  const AttentionInput in = random_input(2, 3, 5, 0, 4, 6);
  const Tensor y = attended(*plain_attention(in), in);
  EXPECT_EQ(y.sizes(), at::IntArrayRef({2, 3, 5, 6}));
  EXPECT_EQ(y.abs().max().item<double>(), 0);
}

TEST(DotProductAttention, DropoutActsInTrainingAloneAndKeepsTheMean) {
  at::manual_seed(10);
  AttentionInput in = random_input(1, 1, 2000, 4, 3, 1);
  in.values.fill_(1);  // without dropout every output is 1
  const auto attention = plain_attention(in, {}, 0.25);
  const Tensor y = attended(*attention, in);
  EXPECT_GT((y - 1).abs().max().item<double>(), 0.1);
  EXPECT_NEAR(y.mean().item<double>(), 1, 0.03);
  attention->eval();
  EXPECT_LT((attended(*attention, in) - 1).abs().max().item<double>(), kTolerance);
}

// ---- the trace

TEST(DotProductAttention, TraceHoldsWhatHappened) {
  at::manual_seed(9);
  AttentionInput in = random_input(2, 2, 3, 4, 5, 5);
  in.visible.pairs = at::ones({3, 4}, at::kBool);
  in.visible.pairs[0][1] = false;
  AttentionTrace trace;
  trace.weights = trace.logits = trace.norms = trace.entropy = true;
  AttentionContext context;
  context.layer = 7;
  context.trace = &trace;
  const Tensor y = plain_attention(in)->forward(in, context);
  ASSERT_EQ(trace.layers.size(), 1u);
  const LayerTrace& seen = trace.layers[0];
  EXPECT_EQ(seen.layer, 7);
  EXPECT_LT(largest_difference(at::matmul(seen.weights, in.values), y), kTolerance);
  EXPECT_LT(largest_difference(seen.logits.softmax(-1), seen.weights), kTolerance);
  EXPECT_TRUE(std::isinf(seen.logits[0][0][0][1].item<double>()));
  EXPECT_LT(largest_difference(seen.query_norms, (in.queries * in.queries).sum(-1).sqrt()),
            kTolerance);
  EXPECT_LT(largest_difference(seen.key_norms, (in.keys * in.keys).sum(-1).sqrt()), kTolerance);
  const Tensor positive = seen.weights.clamp_min(1e-300);
  EXPECT_LT(largest_difference(seen.entropy, -(seen.weights * positive.log()).sum(-1)), kTolerance);
}

TEST(DotProductAttention, TraceRecordsOnlyWhatIsAsked) {
  const AttentionInput in = random_input(1, 1, 2, 2, 3, 3);
  AttentionTrace trace;
  trace.norms = true;
  attended(*plain_attention(in), in, &trace);
  const LayerTrace& seen = trace.layers.at(0);
  EXPECT_TRUE(seen.query_norms.defined() && seen.key_norms.defined());
  EXPECT_FALSE(seen.weights.defined() || seen.logits.defined() || seen.entropy.defined());
}

TEST(DotProductAttention, ATraceMayTakeEachLayerAsItComes) {
  const AttentionInput in = random_input(1, 1, 2, 2, 3, 3);
  AttentionTrace trace;
  trace.norms = true;
  int layers = 0;
  trace.on_layer = [&](const LayerTrace& layer) { layers += layer.query_norms.defined(); };
  attended(*plain_attention(in), in, &trace);
  EXPECT_EQ(layers, 1);
  EXPECT_TRUE(trace.layers.empty());
}

// ---- visible pairs

TEST(VisiblePairs, IsUndefinedWhereEverythingIsVisible) {
  Visibility all;
  EXPECT_FALSE(visible_pairs(all, 4, 4, at::kCPU).defined());
  all.window = 4;
  EXPECT_FALSE(visible_pairs(all, 4, 4, at::kCPU).defined());
  all.window = 0;
  all.causal = true;
  EXPECT_FALSE(visible_pairs(all, 1, 9, at::kCPU).defined());
  EXPECT_TRUE(visible_pairs(all, 2, 9, at::kCPU).defined());
}

TEST(VisiblePairs, AlignsTheLastQueryWithTheLastKey) {
  Visibility causal;
  causal.causal = true;
  const Tensor expected = at::tensor({1, 1, 1, 0, 1, 1, 1, 1}).view({2, 4}).to(at::kBool);
  EXPECT_TRUE(visible_pairs(causal, 2, 4, at::kCPU).equal(expected));
}

}  // namespace
}  // namespace attnlab::dot_product_attention_test
