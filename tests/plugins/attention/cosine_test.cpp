// Cosine attention: cos(Q, K) / n^σ(m) V.
#include <gtest/gtest.h>

#include "framework/nn/kernels/dropout.h"
#include "tests/support/attended.h"
#include "tests/support/gradcheck.h"
#include "tests/support/linear_cost.h"
#include "tests/support/plugins.h"

namespace attnlab::cosine_test {
namespace {

using testing::Index;
using testing::KernelChoice;
using testing::kLinearForms;
using testing::largest_difference;
using testing::random_input;
using testing::Row;

std::shared_ptr<Attention> cosine(const AttentionInput& in, const std::string& options = "{}",
                                  double dropout = 0) {
  AttentionShape shape = testing::shape_of(in);
  shape.dropout = dropout;
  const auto attention = testing::make_attention("cosine", shape, options);
  attention->to(in.queries.scalar_type());
  return attention;
}

Tensor attended(const AttentionInput& in, AttentionTrace* trace = nullptr,
                const std::string& options = "{}") {
  return testing::attended(*cosine(in, options), in, trace);
}

/// @param m  one number for each head.
Tensor naive(const AttentionInput& in, const Row& m) {
  const auto unit = [](const Row& x, std::int64_t) { return testing::over_norm(x, 1e-12); };
  testing::NaiveSettings settings;
  settings.map_query = settings.map_key = unit;
  Tensor weights = testing::naive_logits(in, settings);
  const Tensor visible = testing::naive_visible(in);
  auto w = weights.accessor<double, 4>();
  testing::each_pair(weights, [&](Index b, Index h, Index i, Index j) {
    const double exponent = 1 / (1 + std::exp(-m[h]));
    const bool seen = visible.accessor<bool, 4>()[b][h][i][j];
    const double divisor = std::pow(testing::naive_count(visible, b, h, i), exponent);
    w[b][h][i][j] = seen ? w[b][h][i][j] / divisor : 0;
  });
  return testing::weighed(weights, in.values);
}

AttentionTraits traits() { return cosine(random_input(1, 1, 1, 1, 1, 1))->traits(); }

/// As the options are by default.
Tensor plainly(const AttentionInput& in) { return attended(in); }

TEST(CosineAttention, RefusesWhatHasNoLinearForm) {
  testing::expect_rules_of_linear_form(traits(), plainly);
}

TEST(CosineAttention, EqualsItsEquationInEveryFormUnderEveryRule) {
  AttentionTrace trace;
  testing::expect_equation_in_every_form(
      traits(), plainly, [&](const AttentionInput& in) { return attended(in, &trace); },
      [](const AttentionInput& in) {
        return naive(in, {0.5, 0.5});
      });
}

TEST(CosineAttention, EachHeadHasItsExponent) {
  at::manual_seed(2);
  AttentionInput in = random_input(2, 2, 5, 5, 4, 3);
  in.visible.causal = true;
  const auto attention = cosine(in);
  ASSERT_EQ(attention->parameters().size(), 1u);
  const Tensor m = attention->parameters()[0];
  ASSERT_EQ(m.sizes(), at::IntArrayRef({2}));
  m.data().copy_(at::tensor({-2.0, 1.5}, at::kDouble));
  AttentionContext context;
  for (const auto kernel : kLinearForms) {
    const KernelChoice chosen(kernel);
    EXPECT_LT(largest_difference(attention->forward(in, context), naive(in, {-2.0, 1.5})), 1e-10);
  }
}

TEST(CosineAttention, ExponentsStartWhereTheOptionSays) {
  const AttentionInput in = random_input(1, 2, 4, 5, 4, 3);
  EXPECT_LT(largest_difference(attended(in, nullptr, "{init: -1.25}"), naive(in, {-1.25, -1.25})),
            1e-10);
}

TEST(CosineAttention, IgnoresNormsOfQueriesAndKeys) {
  at::manual_seed(3);
  const AttentionInput in = random_input(1, 2, 4, 5, 4, 3);
  AttentionInput scaled = in;
  scaled.queries = in.queries * 100, scaled.keys = in.keys * at::rand({5, 1}, at::kDouble) * 7;
  EXPECT_LT(largest_difference(attended(in), attended(scaled)), 1e-12);
}

TEST(CosineAttention, LinearFormEqualsQuadraticFormOfLongSequences) {
  at::manual_seed(4);
  testing::expect_forms_agree(plainly);
}

TEST(CosineAttention, ACausalPrefixEqualsThePrefixAlone) {
  at::manual_seed(5);
  AttentionInput in = random_input(1, 2, 100, 100, 4, 4);
  in.visible.causal = true;
  AttentionInput prefix = in;
  for (Tensor* x : {&prefix.queries, &prefix.keys, &prefix.values}) *x = x->narrow(2, 0, 70);
  EXPECT_LT(largest_difference(attended(in).narrow(2, 0, 70), attended(prefix)), 1e-12);
}

TEST(CosineAttention, PaddingEqualsAbsence) {
  at::manual_seed(6);
  AttentionInput in = random_input(1, 2, 4, 6, 4, 3);
  in.visible.key_valid = at::arange(6).unsqueeze(0) < 4;
  AttentionInput shorter = in;
  shorter.keys = in.keys.narrow(2, 0, 4), shorter.values = in.values.narrow(2, 0, 4);
  shorter.visible = {};
  EXPECT_LT(largest_difference(attended(in), attended(shorter)), 1e-14);
}

TEST(CosineAttention, DropoutDropsWeightsOfTheQuadraticForm) {
  at::manual_seed(7);
  const AttentionInput in = random_input(1, 2, 6, 7, 4, 3);
  AttentionTrace trace;
  trace.weights = true;
  attended(in, &trace);
  const auto attention = cosine(in, "{}", 0.5);
  AttentionContext context;
  at::manual_seed(8);
  const Tensor y = attention->forward(in, context).detach();
  at::manual_seed(8);
  const Tensor kept = dropout(trace.layers[0].weights, 0.5);
  EXPECT_LT(largest_difference(y, at::matmul(kept, in.values)), 1e-12);
}

TEST(CosineAttention, GradientsOfInputsAndExponentsAreRightTwiceInBothForms) {
  at::manual_seed(9);
  AttentionInput in = random_input(1, 2, 3, 4, 3, 2);
  const Tensor m = at::tensor({-0.4, 0.9}, at::kDouble);
  for (const auto kernel : kLinearForms) {
    const KernelChoice chosen(kernel);
    for (const bool causal : {false, true}) {
      in.visible.causal = causal;
      const auto attention = cosine(in);
      const auto power = attention->named_modules()["power"];
      const auto f = [&](const std::vector<Tensor>& x) {
        AttentionInput changed = in;
        changed.queries = x[0], changed.keys = x[1], changed.values = x[2];
        std::dynamic_pointer_cast<PowerNormaliser>(power)->m = x[3];
        return testing::attended(*attention, changed);
      };
      EXPECT_LT(testing::gradient_error(f, {in.queries, in.keys, in.values, m}), 1e-7);
      EXPECT_LT(testing::second_gradient_error(f, {in.queries, in.keys, in.values, m}), 1e-6);
    }
  }
}

TEST(CosineAttention, BFloat16IsNearDoubleForLongSequences) {
  at::manual_seed(10);
  for (const bool causal : {false, true}) {
    const auto [narrow, exact] = testing::in_bfloat16_and_double(plainly, causal);
    EXPECT_LT(largest_difference(narrow, exact), 0.02 * exact.abs().max().item<double>());
  }
}

TEST(CosineAttention, HugeAndZeroVectorsStayFinite) {
  at::manual_seed(11);
  for (const double size : {0.0, 1e4}) testing::expect_finite(size, plainly);
}

}  // namespace
}  // namespace attnlab::cosine_test
