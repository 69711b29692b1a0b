// Cosine attention: cos(Q, K) / n^σ(m) V.
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

constexpr AttentionKernel kForms[] = {AttentionKernel::own, AttentionKernel::explicit_form};

std::shared_ptr<Attention> cosine(const AttentionInput& in, const std::string& options = "{}",
                                  double dropout = 0) {
  AttentionShape shape;
  shape.heads = in.heads();
  shape.head_dim = in.queries.size(3);
  shape.value_dim = in.values.size(3);
  shape.dropout = dropout;
  const auto attention = testing::make_attention("cosine", shape, options);
  attention->to(in.queries.scalar_type());
  return attention;
}

Tensor attended(const AttentionInput& in, AttentionTrace* trace = nullptr,
                const std::string& options = "{}") {
  AttentionContext context;
  context.trace = trace;
  return cosine(in, options)->forward(in, context);
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

testing::RulesByTraits rules() {
  return testing::rules_by(cosine(random_input(1, 1, 1, 1, 1, 1))->traits());
}

TEST(CosineAttention, RefusesWhatHasNoLinearForm) {
  const AttentionTraits has = cosine(random_input(1, 1, 1, 1, 1, 1))->traits();
  EXPECT_TRUE(has.linear_cost && has.causal && has.padding && has.ragged && has.second_order);
  EXPECT_FALSE(has.bias || has.window || has.pair_mask || has.relative_positions);
  EXPECT_GE(rules().beyond.size(), 5u);
  for (const auto& [name, in] : rules().beyond) EXPECT_THROW(attended(in), TraitError) << name;
}

TEST(CosineAttention, EqualsItsEquationInEveryFormUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [name, in] : rules().covered) {
    const Tensor expected = naive(in, {0.5, 0.5});
    for (const auto kernel : kForms) {
      const KernelChoice chosen(kernel);
      EXPECT_LT(largest_difference(attended(in), expected), 1e-10)
          << name << ", " << name_of(kernel);
    }
    AttentionTrace trace;
    EXPECT_LT(largest_difference(attended(in, &trace), expected), 1e-10) << name;
  }
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
  for (const auto kernel : kForms) {
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
  for (const auto kernel : kForms) {
    const KernelChoice chosen(kernel);
    for (const bool causal : {false, true}) {
      in.visible.causal = causal;
      const auto attention = cosine(in);
      const auto power = attention->named_modules()["power"];
      const auto f = [&](const std::vector<Tensor>& x) {
        AttentionInput changed = in;
        changed.queries = x[0], changed.keys = x[1], changed.values = x[2];
        std::dynamic_pointer_cast<PowerNormaliser>(power)->m = x[3];
        AttentionContext context;
        return attention->forward(changed, context);
      };
      EXPECT_LT(testing::gradient_error(f, {in.queries, in.keys, in.values, m}), 1e-7);
      EXPECT_LT(testing::second_gradient_error(f, {in.queries, in.keys, in.values, m}), 1e-6);
    }
  }
}

TEST(CosineAttention, BFloat16IsNearDoubleForLongSequences) {
  at::manual_seed(10);
  AttentionInput in = random_input(1, 1, 1000, 1000, 8, 4), narrow = in;
  for (const bool causal : {false, true}) {
    for (Tensor AttentionInput::*x :
         {&AttentionInput::queries, &AttentionInput::keys, &AttentionInput::values}) {
      narrow.*x = (in.*x).to(at::kBFloat16);
      in.*x = (narrow.*x).to(at::kDouble);
    }
    in.visible.causal = narrow.visible.causal = causal;
    const Tensor y = attended(narrow), expected = attended(in);
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    EXPECT_LT(largest_difference(y, expected), 0.02 * expected.abs().max().item<double>());
  }
}

TEST(CosineAttention, HugeAndZeroVectorsStayFinite) {
  for (const auto kernel : kForms) {
    const KernelChoice chosen(kernel);
    for (const double size : {0.0, 1e4}) {
      for (const std::int64_t length : {1, 5}) {
        AttentionInput in = random_input(1, 1, length, length, 4, 4);
        in.queries = (in.queries * size).to(at::kFloat).requires_grad_();
        in.keys = (in.keys * size).to(at::kFloat).requires_grad_();
        in.values = in.values.to(at::kFloat);
        const Tensor y = attended(in);
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
