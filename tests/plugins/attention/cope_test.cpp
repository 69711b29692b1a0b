// Contextual position encoding: softmax(Q Kᵀ / √D + q · e(p)) V, p the tokens that a query counts.
#include <gtest/gtest.h>

#include "tests/support/sourced_input.h"

namespace attnlab::cope_test {
namespace {

using testing::attended;
using testing::Index;
using testing::largest_difference;

constexpr AttentionTraits kTraits{.bias = true,
                                  .causal = true,
                                  .window = true,
                                  .pair_mask = true,
                                  .padding = true,
                                  .different_lengths = true,
                                  .different_source = true,
                                  .second_order = true,
                                  .ordered = true};

/// p of a visible pair.
double naive_position(const AttentionInput& in, Index b, Index h, Index i, Index j) {
  AttentionInput unbiased = in;
  unbiased.bias = Tensor();
  double position = 0;
  for (Index k = j; k < in.key_count(); ++k) {
    if (!testing::sees(in, b, h, i, k)) continue;
    position += 1 / (1 + std::exp(-testing::naive_logit(unbiased, {.scale = 0.5}, b, h, i, k)));
  }
  return position;
}

/// P, zeros where a pair is hidden.
Tensor naive_bias(const Attention& attention, const AttentionInput& in) {
  const Tensor table = attention.named_parameters()["table"];
  const Tensor visible = testing::naive_visible(in);
  Tensor bias = at::zeros(visible.sizes(), at::kDouble);
  auto to = bias.accessor<double, 4>();
  testing::each_pair(bias, [&](Index b, Index h, Index i, Index j) {
    if (testing::at_pair(visible, b, h, i, j) == 0) return;
    const double last = static_cast<double>(table.size(0) - 1);
    const double position = std::min(naive_position(in, b, h, i, j), last);
    const double whole = std::floor(position);
    const testing::Row query = testing::row(in.queries, {b, h, i});
    const auto logit_at = [&](double place) {
      return testing::dot(query, testing::row(table, {static_cast<Index>(place)}));
    };
    to[b][h][i][j] = logit_at(whole) * (whole + 1 - position) +
                     logit_at(std::min(whole + 1, last)) * (position - whole);
  });
  return bias;
}

Tensor naive(const Attention& attention, const AttentionInput& in) {
  const Tensor logits = testing::naive_logits(in, {.scale = 0.5}) + naive_bias(attention, in);
  return testing::weighed(testing::naive_softmax(logits, testing::naive_visible(in)), in.values);
}

TEST(CopeAttention, NeedsAnOrderAndTakesNoOtherPositions) {
  AttentionInput in = testing::small_input(kTraits, 3);
  const auto attention = testing::drawn_attention("cope", in);
  EXPECT_EQ(attention->traits(), kTraits);
  in.visible.causal = false;
  EXPECT_THROW(attended(*attention, in), TraitError);
}

TEST(CopeAttention, EqualsItsEquationUnderEveryRule) {
  at::manual_seed(1);
  // With two and three positions many are beyond the last.
  for (const char* options : {"{}", "{max_positions: 2}", "{max_positions: 3}"}) {
    for (const auto& [name, in] : testing::inputs_for(kTraits)) {
      const auto attention = testing::drawn_attention("cope", in, options);
      const Tensor expected = naive(*attention, in);
      EXPECT_LT(largest_difference(attended(*attention, in), expected), 1e-10) << options << name;
      AttentionTrace trace;
      EXPECT_LT(largest_difference(attended(*attention, in, &trace), expected), 1e-10) << name;
    }
  }
}

TEST(CopeAttention, StartsWithoutPositions) {
  at::manual_seed(2);
  const AttentionInput in = testing::small_input(kTraits, 5);
  const auto attention = testing::make_attention("cope", testing::sourced_shape(in));
  attention->to(at::kDouble);
  EXPECT_EQ(testing::parameter_count(*attention), 64 * 4);
  const auto standard = testing::drawn_attention("standard", in);
  EXPECT_LT(largest_difference(attended(*attention, in), attended(*standard, in)), 1e-12);
}

TEST(CopeAttention, PositionsCountTheTokensThatTheQueryCounts) {
  at::manual_seed(3);
  AttentionInput in = testing::small_input(kTraits, 6);
  // The first channel says whether a token counts: gates are 1 or 0.
  for (Tensor* x : {&in.queries, &in.keys}) x->zero_();
  in.queries.select(3, 0).fill_(100);
  const bool counts[] = {true, false, true, true, false, false};
  for (Index j = 0; j < 6; ++j) in.keys.select(3, 0).select(2, j).fill_(counts[j] ? 10 : -10);
  const auto attention = testing::drawn_attention("cope", in);
  const Tensor table = attention->named_parameters()["table"];
  const Tensor bias = testing::traced(*attention, in).bias;
  for (Index i = 0; i < 6; ++i) {
    Index position = 0;
    for (Index j = i; j >= 0; --j) {
      position += counts[j];
      EXPECT_NEAR(bias[0][1][i][j].item<double>(), 100 * table[position][0].item<double>(), 1e-9)
          << i << " " << j;
    }
  }
}

TEST(CopeAttention, PaddingDoesNotCount) {
  at::manual_seed(4);
  const AttentionInput in = testing::small_input(kTraits, 6);
  testing::expect_padding_between_is_absence(*testing::drawn_attention("cope", in), in);
}

TEST(CopeAttention, RecordsWhatItAddsToTheLogits) {
  at::manual_seed(5);
  const AttentionInput in = testing::small_input(kTraits, 4);
  const auto attention = testing::drawn_attention("cope", in);
  const LayerTrace seen = testing::traced(*attention, in);
  EXPECT_LT(largest_difference(seen.bias.tril(), naive_bias(*attention, in)), 1e-12);
  EXPECT_LT(largest_difference(at::matmul(seen.weights, in.values), attended(*attention, in)),
            1e-12);
}

TEST(CopeAttention, GradientsAreRightTwice) {
  at::manual_seed(6);
  const AttentionInput in = testing::small_input(kTraits, 4);
  // With two positions some pairs lie beyond the last, where gates have no gradient.
  for (const char* options : {"{max_positions: 5}", "{max_positions: 2}"}) {
    testing::expect_gradients_right(
        *testing::drawn_attention("cope", in, options), in,
        {&AttentionInput::queries, &AttentionInput::keys, &AttentionInput::values});
  }
}

}  // namespace
}  // namespace attnlab::cope_test
