// Doubly stochastic attention: Sinkhorn(Q Kᵀ / √D) V.
#include <gtest/gtest.h>

#include "tests/support/attended.h"
#include "tests/support/gradcheck.h"
#include "tests/support/naive_weights.h"
#include "tests/support/plugins.h"
#include "tests/support/ragged.h"

namespace attnlab::doubly_stochastic_test {
namespace {

using testing::largest_difference;
using testing::random_input;

Tensor attended(const AttentionInput& in, const std::string& options = "{}",
                AttentionTrace* trace = nullptr) {
  return testing::attended(
      *testing::make_attention("doubly_stochastic", testing::shape_of(in), options), in, trace);
}

Tensor naive(const AttentionInput& in, const SinkhornOptions& options) {
  const Tensor weights = testing::naive_sinkhorn(testing::naive_logits(in, {.scale = 0.5}),
                                                 testing::naive_visible(in), options);
  return testing::weighed(weights, in.values);
}

AttentionTraits traits() {
  return testing::make_attention("doubly_stochastic", {.heads = 2, .head_dim = 4})->traits();
}

TEST(DoublyStochasticAttention, HonoursEveryInputButTheCausalRule) {
  AttentionTraits expected = AttentionTraits::all_quadratic();
  expected.causal = false;
  EXPECT_EQ(traits(), expected);
  for (const auto& [name, in] : testing::rules_by(traits()).beyond) {
    EXPECT_THROW(attended(in), TraitError) << name;
  }
}

TEST(DoublyStochasticAttention, EqualsTheLoopsUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [name, in] : testing::rules_by(traits()).covered) {
    const Tensor expected = naive(in, {});
    EXPECT_LT(largest_difference(attended(in), expected), 1e-10) << name;
    AttentionTrace trace;
    EXPECT_LT(largest_difference(attended(in, "{}", &trace), expected), 1e-10) << name;
  }
}

TEST(DoublyStochasticAttention, EqualsTheLoopsWithThePapersSettings) {
  at::manual_seed(2);
  for (const auto& [name, in] : testing::rules_by(traits()).covered) {
    SinkhornOptions options;
    options.max_iter = 20, options.eps = 2;
    EXPECT_LT(largest_difference(attended(in, "{max_iter: 20, eps: 2}"), naive(in, options)), 1e-10)
        << name;
    options.max_iter = 8, options.eps = 1.4, options.total = "inverse_n";
    EXPECT_LT(largest_difference(attended(in, "{max_iter: 8, eps: 1.4, total: inverse_n}"),
                                 naive(in, options)),
              1e-10)
        << name;
  }
}

TEST(DoublyStochasticAttention, NoKeyDrawsMoreThanItsShare) {
  at::manual_seed(3);
  AttentionInput in = random_input(2, 2, 6, 6, 4, 4);
  in.keys.select(2, 0).mul_(4);  // softmax would let it win
  AttentionTrace trace;
  trace.weights = true;
  attended(in, "{max_iter: 2000, tolerance: 1.0e-8}", &trace);
  attended(in, "{max_iter: 1}", &trace);
  const Tensor fair = trace.layers[0].weights, softmax = trace.layers[1].weights;
  EXPECT_LT((fair.sum(-1) - 1).abs().max().item<double>(), 1e-12);
  EXPECT_LT((fair.sum(-2) - 1).abs().max().item<double>(), 1e-6);
  EXPECT_GT((softmax.sum(-2) - 1).abs().max().item<double>(), 0.5);
}

TEST(DoublyStochasticAttention, OneRowStepIsStandardAttention) {
  at::manual_seed(4);
  const AttentionInput in = random_input(2, 2, 4, 5, 4, 3);
  EXPECT_LT(largest_difference(attended(in, "{max_iter: 1}"),
                               testing::naive_attention(in, {.scale = 0.5})),
            1e-10);
}

TEST(DoublyStochasticAttention, PaddingQueriesAndKeysEqualAbsence) {
  at::manual_seed(5);
  AttentionInput in = random_input(1, 2, 6, 7, 4, 3);
  in.visible.query_valid = at::arange(6).unsqueeze(0) < 4;
  in.visible.key_valid = at::arange(7).unsqueeze(0) >= 2;
  AttentionInput alone = in;
  alone.queries = in.queries.narrow(2, 0, 4);
  alone.keys = in.keys.narrow(2, 2, 5), alone.values = in.values.narrow(2, 2, 5);
  alone.visible = {};
  const Tensor y = attended(in);
  EXPECT_LT(largest_difference(y.narrow(2, 0, 4), attended(alone)), 1e-14);
  EXPECT_EQ(y.narrow(2, 4, 2).abs().max().item<double>(), 0);
}

// The published stop looks at the mean over the batch: an example that is done goes on with others.
TEST(DoublyStochasticAttention, ExamplesDoNotDependOnWhoElseIsInTheBatch) {
  at::manual_seed(9);
  AttentionInput in = random_input(2, 2, 6, 6, 4, 4);
  in.queries.select(0, 0).mul_(0.1);  // near uniform from the first half-step on
  AttentionInput alone = in;
  for (Tensor* x : {&alone.queries, &alone.keys, &alone.values}) *x = x->narrow(0, 0, 1);
  const auto difference = [&](const std::string& options) {
    return largest_difference(attended(in, options).narrow(0, 0, 1), attended(alone, options));
  };
  EXPECT_LT(difference("{max_iter: 20}"), 1e-15);
  EXPECT_GT(difference("{max_iter: 20, tolerance: 0.01}"), 1e-9) << "the published behaviour";
}

TEST(DoublyStochasticAttention, RaggedSequencesEqualSeparateOnes) {
  at::manual_seed(6);
  testing::expect_sequences_apart(
      false, [](const auto& in) { return attended(in); },
      [](const auto& one) { return naive(one, {}); });
}

TEST(DoublyStochasticAttention, GradientsAreRightTwice) {
  at::manual_seed(7);
  AttentionInput in = random_input(2, 2, 3, 4, 3, 2);
  for (const bool padded : {false, true}) {
    if (padded) in.visible.key_valid = at::arange(4).unsqueeze(0) < at::tensor({3, 0}).view({2, 1});
    const auto f = testing::of_tokens(in, [&](const AttentionInput& one) { return attended(one); });
    EXPECT_LT(testing::gradient_error(f, {in.queries, in.keys, in.values}), 1e-7);
    EXPECT_LT(testing::second_gradient_error(f, {in.queries, in.keys, in.values}), 1e-6);
  }
}

TEST(DoublyStochasticAttention, HugeLogitsStayFinite) {
  at::manual_seed(8);
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    AttentionInput in = random_input(1, 2, 5, 5, 4, 4);
    in.queries = (in.queries * 1e4).to(dtype).requires_grad_();
    in.keys = in.keys.to(dtype), in.values = in.values.to(dtype);
    const Tensor y = attended(in);
    y.sin().sum().backward();
    EXPECT_TRUE(y.isfinite().all().item<bool>());
    EXPECT_TRUE(in.queries.grad().isfinite().all().item<bool>());
  }
}

}  // namespace
}  // namespace attnlab::doubly_stochastic_test
