// Linear attention: φ(Q)(φ(K)ᵀ V) over its row sums, φ = elu + 1.
#include <gtest/gtest.h>

#include "framework/nn/kernels/dropout.h"
#include "tests/support/attended.h"
#include "tests/support/gradcheck.h"
#include "tests/support/linear_cost.h"
#include "tests/support/plugins.h"
#include "tests/support/ragged.h"

namespace attnlab::linear_test {
namespace {

using testing::Index;
using testing::KernelChoice;
using testing::kLinearForms;
using testing::largest_difference;
using testing::random_input;
using testing::Row;

std::shared_ptr<Attention> linear(const AttentionInput& in, const std::string& options = "{}",
                                  double dropout = 0) {
  AttentionShape shape = testing::shape_of(in);
  shape.dropout = dropout;
  return testing::make_attention("linear", shape, options);
}

Tensor attended(const AttentionInput& in, const std::string& options = "{}",
                AttentionTrace* trace = nullptr) {
  return testing::attended(*linear(in, options), in, trace);
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

AttentionTraits traits() { return linear(random_input(1, 1, 1, 1, 1, 1))->traits(); }

/// As the options are by default.
Tensor plainly(const AttentionInput& in) { return attended(in); }

TEST(LinearAttention, RefusesWhatHasNoLinearForm) {
  testing::expect_rules_of_linear_form(traits(), plainly);
}

TEST(LinearAttention, EqualsItsEquationInEveryFormUnderEveryRule) {
  AttentionTrace trace;
  testing::expect_equation_in_every_form(
      traits(), plainly, [&](const AttentionInput& in) { return attended(in, "{}", &trace); },
      [](const AttentionInput& in) { return naive(in); });
}

TEST(LinearAttention, ThePapersEquationIsAnOption) {
  at::manual_seed(2);
  for (const auto& [name, in] : testing::rules_by(traits()).covered) {
    AttentionInput positive = in;  // the sums of raw keys may be near zero
    positive.keys = in.keys.abs() + 0.1;
    for (const auto kernel : kLinearForms) {
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
  for (const auto kernel : kLinearForms) {
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
  testing::expect_forms_agree(plainly);
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
  testing::expect_sequences_apart(true, plainly, [](const auto& one) { return naive(one); });
}

TEST(LinearAttention, GradientsAreRightTwiceInBothForms) {
  at::manual_seed(9);
  AttentionInput in = random_input(1, 2, 3, 4, 3, 2);
  for (const auto kernel : kLinearForms) {
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
  for (const bool causal : {false, true}) {
    const auto [narrow, exact] = testing::in_bfloat16_and_double(plainly, causal);
    EXPECT_LT(largest_difference(narrow, exact), 0.02);
  }
}

TEST(LinearAttention, HugeInputsAndSingleKeysStayFinite) {
  at::manual_seed(11);
  for (const char* options : {"{}", "{eps: 0}"}) {
    testing::expect_finite(1e4, [&](const AttentionInput& in) { return attended(in, options); });
  }
}

}  // namespace
}  // namespace attnlab::linear_test
