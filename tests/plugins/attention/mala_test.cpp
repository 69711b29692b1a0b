// Magnitude-aware linear attention: sum of (β s - γ) v, s = φ(q) · φ(k) / (n √D).
#include <gtest/gtest.h>

#include "tests/support/attended.h"
#include "tests/support/linear_cost.h"
#include "tests/support/ragged.h"
#include "tests/support/sourced_input.h"

namespace attnlab::mala_test {
namespace {

using testing::Index;
using testing::KernelChoice;
using testing::kLinearForms;
using testing::largest_difference;
using testing::random_input;
using testing::Row;

Tensor attended(const AttentionInput& in, AttentionTrace* trace = nullptr) {
  return testing::attended(*testing::make_attention("mala", testing::shape_of(in)), in, trace);
}

Tensor plainly(const AttentionInput& in) { return attended(in); }

Tensor naive_weights(const AttentionInput& in) {
  const auto feature = [](Row x, std::int64_t) {
    for (double& c : x) c = c > 0 ? c + 1 : std::exp(c);
    return x;
  };
  testing::NaiveSettings settings;
  settings.scale = 1 / std::sqrt(static_cast<double>(in.keys.size(3)));
  settings.map_query = settings.map_key = feature;
  Tensor weights = testing::naive_logits(in, settings);
  const Tensor visible = testing::naive_visible(in);
  auto w = weights.accessor<double, 4>();
  Tensor sums = at::zeros({in.batch(), in.heads(), in.query_count(), 1}, at::kDouble);
  auto sum = sums.accessor<double, 4>();
  const auto count = [&](Index b, Index h, Index i) {
    return testing::naive_count(visible, b, h, i);
  };
  testing::each_pair(weights, [&](Index b, Index h, Index i, Index j) {
    if (testing::at_pair(visible, b, h, i, j) == 0) {
      w[b][h][i][j] = 0;
      return;
    }
    sum[b][h][i][0] += w[b][h][i][j] /= count(b, h, i);
  });
  testing::each_pair(weights, [&](Index b, Index h, Index i, Index j) {
    if (testing::at_pair(visible, b, h, i, j) == 0) return;
    const double total = sum[b][h][i][0];
    w[b][h][i][j] = w[b][h][i][j] * (1 + 1 / (total + 1e-6)) - total / count(b, h, i);
  });
  return weights;
}

Tensor naive(const AttentionInput& in) { return testing::weighed(naive_weights(in), in.values); }

AttentionTraits traits() {
  return testing::make_attention("mala", {.heads = 1, .head_dim = 4})->traits();
}

TEST(MalaAttention, RefusesWhatHasNoLinearForm) {
  testing::expect_rules_of_linear_form(traits(), plainly);
}

TEST(MalaAttention, EqualsItsEquationInEveryFormUnderEveryRule) {
  AttentionTrace trace;
  testing::expect_equation_in_every_form(
      traits(), plainly, [&](const AttentionInput& in) { return attended(in, &trace); },
      [](const AttentionInput& in) { return naive(in); });
}

TEST(MalaAttention, LinearFormEqualsQuadraticFormOfLongSequences) {
  at::manual_seed(2);
  testing::expect_forms_agree(plainly);
}

TEST(MalaAttention, WeightsSumToOneAndSpreadWithTheLengthOfAQuery) {
  at::manual_seed(3);
  AttentionInput in = random_input(1, 2, 4, 30, 4, 3);
  const auto spread = [&](double size) {
    AttentionInput scaled = in;
    scaled.queries =
        in.queries.abs() * size + (size - 1);  // φ is x + 1 there: `size` times as long
    AttentionTrace trace;
    trace.weights = true;
    attended(scaled, &trace);
    const Tensor& weights = trace.layers.at(0).weights;
    EXPECT_LT((weights.sum(-1) - 1).abs().max().item<double>(), 1e-5);
    return (weights - 1.0 / 30).abs();
  };
  const Tensor once = spread(1), thrice = spread(3);
  EXPECT_TRUE(thrice.gt(once).all().item<bool>());
  EXPECT_GT(thrice.max().item<double>(), 1.5 * once.max().item<double>());
}

TEST(MalaAttention, RemembersTheSameAmountOfAnyNumberOfTokens) {
  at::manual_seed(4);
  AttentionInput in = random_input(2, 2, 80, 80, 4, 3);
  in.visible.causal = true;
  const auto attention = testing::make_attention("mala", testing::shape_of(in));
  AttentionContext context;
  AttentionMemory memory;
  std::vector<Tensor> parts;
  for (const auto& [first, last] : {std::pair(0, 1), std::pair(1, 70), std::pair(70, 80)}) {
    AttentionInput some = in;
    for (Tensor* x : {&some.queries, &some.keys, &some.values}) {
      *x = x->narrow(2, first, last - first);
    }
    parts.push_back(attention->extend(some, memory, context));
    EXPECT_EQ(memory.bytes(), 2 * 2 * (4 + 1) * (3 + 1) * 8) << last;
  }
  EXPECT_LT(largest_difference(at::cat(parts, 2), attended(in)), 1e-10);
  EXPECT_LT(largest_difference(at::cat(parts, 2), naive(in)), 1e-10);
}

TEST(MalaAttention, RaggedSequencesEqualSeparateOnes) {
  at::manual_seed(5);
  testing::expect_sequences_apart(true, plainly, [](const auto& one) { return naive(one); });
}

TEST(MalaAttention, GradientsAreRightTwiceInBothForms) {
  at::manual_seed(6);
  AttentionInput in = random_input(1, 2, 3, 4, 3, 2);
  const auto attention = testing::drawn_attention("mala", in);
  for (const auto kernel : kLinearForms) {
    const KernelChoice chosen(kernel);
    for (const bool causal : {false, true}) {
      in.visible.causal = causal;
      testing::expect_gradients_right(
          *attention, in,
          {&AttentionInput::queries, &AttentionInput::keys, &AttentionInput::values});
    }
  }
}

TEST(MalaAttention, HugeInputsAndSingleKeysStayFinite) {
  at::manual_seed(7);
  testing::expect_finite(1e4, plainly);
}

}  // namespace
}  // namespace attnlab::mala_test
