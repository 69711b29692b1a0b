// What all QK-normalisations have in common, for each form that its own test instantiates.
#include "tests/plugins/attention/qk_normalisation.h"
#include "tests/support/attended.h"
#include "tests/support/ragged.h"

namespace attnlab::qk_normalisation_test {
namespace {

using testing::attended;
using testing::BuiltAttention;
using testing::largest_difference;
using testing::naive_attention;
using testing::QKNormalisation;
using testing::random_input;

TEST_P(QKNormalisation, HonoursEveryInputOfTheContract) {
  EXPECT_EQ(GetParam().built(random_input(1, 2, 3, 3, 4, 4))->traits(),
            AttentionTraits::all_quadratic());
}

TEST_P(QKNormalisation, EqualsItsEquationUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [rule, in] : testing::one_input_for_each_rule()) {
    const BuiltAttention attention = GetParam().varied(in);
    const Tensor expected = naive_attention(in, GetParam().equation(*attention));
    EXPECT_LT(largest_difference(attended(attention, in), expected), 1e-10) << rule;
    AttentionTrace trace;
    EXPECT_LT(largest_difference(attended(attention, in, &trace), expected), 1e-10)
        << rule << ", traced";
  }
}

TEST_P(QKNormalisation, GradientsAreRight) {
  at::manual_seed(2);
  AttentionInput in = random_input(2, 2, 3, 4, 4, 3);
  in.visible.causal = true;
  for (Tensor* x : {&in.queries, &in.keys, &in.values}) x->requires_grad_();
  const BuiltAttention attention = GetParam().varied(in);
  std::vector<Tensor> leaves = attention->parameters();
  leaves.insert(leaves.end(), {in.queries, in.keys, in.values});
  AttentionTrace trace;
  for (AttentionTrace* with : {static_cast<AttentionTrace*>(nullptr), &trace}) {
    const auto f = [&] { return attended(attention, in, with); };
    EXPECT_LT(testing::leaf_gradient_error(f, leaves), 1e-7);
  }
}

TEST_P(QKNormalisation, GradientsOfGradientsAreRight) {
  at::manual_seed(3);
  const AttentionInput in = random_input(1, 2, 2, 3, 3, 2);
  const BuiltAttention attention = GetParam().varied(in);
  const auto f =
      testing::of_tokens(in, [&](const AttentionInput& one) { return attended(attention, one); });
  EXPECT_LT(testing::second_gradient_error(f, {in.queries, in.keys, in.values}), 1e-6);
}

TEST_P(QKNormalisation, RaggedSequencesEqualSeparateOnes) {
  at::manual_seed(4);
  const BuiltAttention attention = GetParam().varied(random_input(1, 2, 7, 7, 4, 4));
  testing::expect_sequences_apart(
      true, [&](const auto& in) { return attended(attention, in); },
      [&](const auto& one) { return naive_attention(one, GetParam().equation(*attention)); });
}

TEST_P(QKNormalisation, ZeroVectorsGiveFiniteGradients) {
  AttentionInput in = random_input(1, 1, 2, 3, 4, 4);
  in.queries = at::zeros({1, 1, 2, 4}, at::kDouble).requires_grad_();
  in.keys = at::zeros({1, 1, 3, 4}, at::kDouble).requires_grad_();
  const Tensor y = attended(GetParam().built(in), in);
  EXPECT_LT(largest_difference(y.detach(), in.values.mean(2, true).expand({1, 1, 2, 4})), 1e-12);
  y.sum().backward();
  EXPECT_TRUE(in.queries.grad().isfinite().all().item<bool>());
  EXPECT_TRUE(in.keys.grad().isfinite().all().item<bool>());
}

}  // namespace
}  // namespace attnlab::qk_normalisation_test
