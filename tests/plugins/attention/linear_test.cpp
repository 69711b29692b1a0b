// Linear attention: φ(Q)(φ(K)ᵀ V) over its row sums, φ = elu + 1.
#include <gtest/gtest.h>

#include "framework/nn/kernels/dropout.h"
#include "tests/support/gradcheck.h"
#include "tests/support/kernel_choice.h"
#include "tests/support/naive_weights.h"
#include "tests/support/plugins.h"

namespace attnlab {
namespace {

using testing::Index;
using testing::KernelChoice;
using testing::largest_difference;
using testing::random_input;
using testing::Row;

std::shared_ptr<Attention> linear(const AttentionInput& in, const std::string& options = "{}",
                                  double dropout = 0) {
  AttentionShape shape;
  shape.heads = in.heads();
  shape.head_dim = in.queries.size(3);
  shape.value_dim = in.values.size(3);
  shape.dropout = dropout;
  return testing::make_attention("linear", shape, options);
}

Tensor attended(const AttentionInput& in, const std::string& options = "{}",
                AttentionTrace* trace = nullptr) {
  AttentionContext context;
  context.trace = trace;
  return linear(in, options)->forward(in, context);
}

Tensor naive(const AttentionInput& in, double eps = 1e-6, bool maps_keys = true) {
  const auto feature = [](Row x, std::int64_t) {
    for (double& c : x) c = c > 0 ? c + 1 : std::exp(c);
    return x;
  };
  testing::NaiveSettings settings;
  settings.map_query = feature;
  if (maps_keys) settings.map_key = feature;
  Tensor weights = testing::naive_logits(in, settings);
  const Tensor visible = testing::naive_visible(in);
  auto w = weights.accessor<double, 4>();
  const Tensor sums = at::zeros({in.batch(), in.heads(), in.query_count(), 1}, at::kDouble);
  auto sum = sums.accessor<double, 4>();
  testing::each_pair(weights, [&](Index b, Index h, Index i, Index j) {
    if (!visible.accessor<bool, 4>()[b][h][i][j]) w[b][h][i][j] = 0;
    sum[b][h][i][0] += w[b][h][i][j];
  });
  testing::each_pair(weights, [&](Index b, Index h, Index i, Index j) {
    if (w[b][h][i][j] != 0) w[b][h][i][j] /= sum[b][h][i][0] + eps;
  });
  return testing::weighed(weights, in.values);
}

testing::RulesByTraits rules() {
  return testing::rules_by(linear(random_input(1, 1, 1, 1, 1, 1))->traits());
}

TEST(LinearAttention, RefusesWhatHasNoLinearForm) {
  const AttentionTraits has = linear(random_input(1, 1, 1, 1, 1, 1))->traits();
  EXPECT_TRUE(has.linear_cost && has.causal && has.padding && has.ragged && has.second_order);
  EXPECT_FALSE(has.bias || has.window || has.pair_mask || has.relative_positions);
  EXPECT_GE(rules().beyond.size(), 5u);
  for (const auto& [name, in] : rules().beyond) EXPECT_THROW(attended(in), TraitError) << name;
}

TEST(LinearAttention, EqualsItsEquationInEveryFormUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [name, in] : rules().covered) {
    const Tensor expected = naive(in);
    for (const auto kernel : {AttentionKernel::own, AttentionKernel::explicit_form}) {
      const KernelChoice chosen(kernel);
      EXPECT_LT(largest_difference(attended(in), expected), 1e-10)
          << name << ", " << name_of(kernel);
    }
    AttentionTrace trace;
    EXPECT_LT(largest_difference(attended(in, "{}", &trace), expected), 1e-10) << name;
  }
}

TEST(LinearAttention, ThePapersEquationIsAnOption) {
  at::manual_seed(2);
  for (const auto& [name, in] : rules().covered) {
    AttentionInput positive = in;  // the sums of raw keys may be near zero
    positive.keys = in.keys.abs() + 0.1;
    for (const auto kernel : {AttentionKernel::own, AttentionKernel::explicit_form}) {
      const KernelChoice chosen(kernel);
      EXPECT_LT(largest_difference(attended(positive, "{feature_map: queries, eps: 0.1}"),
                                   naive(positive, 0.1, false)),
                1e-10)
          << name << ", " << name_of(kernel);
    }
  }
}

TEST(LinearAttention, WithoutEpsRowsThatSeeNothingGiveZerosAndFiniteGradients) {
  AttentionInput in = random_input(1, 1, 3, 2, 4, 4);
  in.visible.causal = true;  // the first query stands before the first key
  in.keys.requires_grad_();
  for (const auto kernel : {AttentionKernel::own, AttentionKernel::explicit_form}) {
    const KernelChoice chosen(kernel);
    const Tensor y = attended(in, "{eps: 0}");
    EXPECT_LT(largest_difference(y.detach(), naive(in, 0)), 1e-10);
    EXPECT_EQ(y.select(2, 0).abs().max().item<double>(), 0);
    y.sum().backward();
    EXPECT_TRUE(in.keys.grad().isfinite().all().item<bool>());
  }
}

TEST(LinearAttention, LinearFormEqualsQuadraticFormOfLongSequences) {
  at::manual_seed(3);
  for (const auto& [queries, keys] :
       {std::pair(150, 150), std::pair(70, 200), std::pair(200, 70)}) {
    AttentionInput in = random_input(2, 2, queries, keys, 8, 5);
    in.visible.key_valid = at::rand({2, keys}) < 0.8;
    for (const bool causal : {false, true}) {
      in.visible.causal = causal;
      Tensor outputs[2];
      for (const bool own : {false, true}) {
        const KernelChoice chosen(own ? AttentionKernel::own : AttentionKernel::explicit_form);
        outputs[own] = attended(in);
      }
      EXPECT_LT(largest_difference(outputs[0], outputs[1]), 1e-10);
    }
  }
}

TEST(LinearAttention, WeightsSumToOneWithoutEps) {
  at::manual_seed(4);
  AttentionTrace trace;
  trace.weights = true;
  attended(random_input(2, 2, 4, 5, 4, 3), "{eps: 0}", &trace);
  EXPECT_LT((trace.layers[0].weights.sum(-1) - 1).abs().max().item<double>(), 1e-12);
  EXPECT_GT(trace.layers[0].weights.min().item<double>(), 0);
}

TEST(LinearAttention, TheFutureDoesNotReachThePast) {
  at::manual_seed(5);
  AttentionInput in = random_input(1, 2, 140, 140, 4, 4);
  in.visible.causal = true;
  AttentionInput changed = in;
  changed.keys = in.keys.clone(), changed.values = in.values.clone();
  changed.keys.narrow(2, 90, 50).add_(3), changed.values.narrow(2, 90, 50).add_(3);
  const Tensor before = attended(in), after = attended(changed);
  EXPECT_TRUE(at::equal(before.narrow(2, 0, 90), after.narrow(2, 0, 90)));
  EXPECT_GT(largest_difference(before.narrow(2, 90, 50), after.narrow(2, 90, 50)), 0.1);
}

TEST(LinearAttention, DropoutDropsWeightsOfTheQuadraticForm) {
  at::manual_seed(6);
  const AttentionInput in = random_input(1, 2, 6, 7, 4, 3);
  AttentionTrace trace;
  trace.weights = true;
  attended(in, "{}", &trace);
  const auto attention = linear(in, "{}", 0.5);
  AttentionContext context;
  at::manual_seed(7);
  const Tensor y = attention->forward(in, context);
  at::manual_seed(7);
  const Tensor kept = dropout(trace.layers[0].weights, 0.5);
  EXPECT_LT(largest_difference(y, at::matmul(kept, in.values)), 1e-12);
  attention->eval();
  EXPECT_LT(largest_difference(attention->forward(in, context), naive(in)), 1e-10);
}

TEST(LinearAttention, RaggedSequencesEqualSeparateOnes) {
  at::manual_seed(8);
  AttentionInput in = random_input(1, 2, 7, 7, 4, 4);
  in.visible.causal = true;
  in.visible.query_offsets = in.visible.key_offsets = at::tensor({0, 3, 7}, at::kLong);
  std::vector<Tensor> separate;
  for (const auto& [first, length] : {std::pair(0, 3), std::pair(3, 4)}) {
    AttentionInput one = in;
    one.visible.query_offsets = one.visible.key_offsets = Tensor();
    for (Tensor* x : {&one.queries, &one.keys, &one.values}) *x = x->narrow(2, first, length);
    separate.push_back(naive(one));
  }
  EXPECT_LT(largest_difference(attended(in), at::cat(separate, 2)), 1e-10);
}

TEST(LinearAttention, GradientsAreRightTwiceInBothForms) {
  at::manual_seed(9);
  AttentionInput in = random_input(1, 2, 3, 4, 3, 2);
  for (const auto kernel : {AttentionKernel::own, AttentionKernel::explicit_form}) {
    const KernelChoice chosen(kernel);
    for (const char* options : {"{}", "{feature_map: queries, eps: 1}"}) {
      in.visible.causal = !in.visible.causal;
      const auto f = [&](const std::vector<Tensor>& x) {
        AttentionInput changed = in;
        changed.queries = x[0], changed.keys = x[1].abs(), changed.values = x[2];
        return attended(changed, options);
      };
      EXPECT_LT(testing::gradient_error(f, {in.queries, in.keys, in.values}), 1e-7);
      EXPECT_LT(testing::second_gradient_error(f, {in.queries, in.keys, in.values}), 1e-6);
    }
  }
}

TEST(LinearAttention, BFloat16IsNearDoubleForLongSequences) {
  at::manual_seed(10);
  AttentionInput in = random_input(1, 1, 1000, 1000, 8, 4), narrow = in;
  for (const bool causal : {false, true}) {
    for (Tensor AttentionInput::*x :
         {&AttentionInput::queries, &AttentionInput::keys, &AttentionInput::values}) {
      narrow.*x = (in.*x).to(at::kBFloat16);
      in.*x = (narrow.*x).to(at::kDouble);
    }
    in.visible.causal = narrow.visible.causal = causal;
    const Tensor y = attended(narrow);
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    EXPECT_LT(largest_difference(y, attended(in)), 0.02);
  }
}

TEST(LinearAttention, HugeInputsAndSingleKeysStayFinite) {
  at::manual_seed(11);
  for (const auto kernel : {AttentionKernel::own, AttentionKernel::explicit_form}) {
    const KernelChoice chosen(kernel);
    for (const char* options : {"{}", "{eps: 0}"}) {
      for (const std::int64_t length : {1, 5}) {
        AttentionInput in = random_input(1, 1, length, length, 4, 4);
        in.queries = (in.queries * 1e4).to(at::kFloat).requires_grad_();
        in.keys = (in.keys * 1e4).to(at::kFloat).requires_grad_();
        in.values = in.values.to(at::kFloat);
        const Tensor y = attended(in, options);
        y.sum().backward();
        EXPECT_TRUE(y.isfinite().all().item<bool>());
        EXPECT_TRUE(in.queries.grad().isfinite().all().item<bool>());
        EXPECT_TRUE(in.keys.grad().isfinite().all().item<bool>());
      }
    }
  }
}

}  // namespace
}  // namespace attnlab
