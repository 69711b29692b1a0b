// Selective attention: softmax(Q Kᵀ / √D - F) V, F from what earlier queries of head 0 selected.
#include <gtest/gtest.h>

#include "tests/support/sourced_input.h"

namespace attnlab::selective_test {
namespace {

using testing::attended;
using testing::Index;
using testing::largest_difference;

constexpr AttentionTraits kTraits{.bias = true,
                                  .causal = true,
                                  .window = true,
                                  .pair_mask = true,
                                  .padding = true,
                                  .different_source = true,
                                  .second_order = true,
                                  .ordered = true};

/// F, [B, H, L, L].
Tensor naive_masks(const AttentionInput& in) {
  AttentionInput unbiased = in;
  unbiased.bias = Tensor();
  const Tensor& valid = in.visible.key_valid;
  const Tensor visible = testing::naive_visible(in);
  Tensor masks = testing::naive_logits(in, {}).zero_();
  auto to = masks.accessor<double, 4>();
  testing::each_pair(masks, [&](Index b, Index h, Index i, Index j) {
    bool first = true;  // no real token before it
    for (Index k = 0; k < j; ++k) {
      first = first && valid.defined() && testing::at_pair(valid, 0, 0, b, k) == 0;
    }
    if (first) return;
    for (Index earlier = 0; earlier < i; ++earlier) {
      if (earlier == j || testing::at_pair(visible, b, 0, earlier, j) == 0) continue;
      const double logit = testing::naive_logit(unbiased, {.scale = 0.5}, b, 0, earlier, j);
      to[b][h][i][j] += std::max(logit, 0.0);
    }
  });
  return masks;
}

Tensor naive(const AttentionInput& in) {
  const Tensor logits = testing::naive_logits(in, {.scale = 0.5}) - naive_masks(in);
  return testing::weighed(testing::naive_softmax(logits, testing::naive_visible(in)), in.values);
}

std::shared_ptr<Attention> made(const AttentionInput& in) {
  return testing::drawn_attention("selective", in);
}

TEST(SelectiveAttention, NeedsAnOrderAndAllQueries) {
  AttentionInput in = testing::small_input(kTraits, 4);
  const auto attention = made(in);
  EXPECT_EQ(attention->traits(), kTraits);
  EXPECT_TRUE(attention->couples_queries());
  EXPECT_EQ(testing::parameter_count(*attention), 0);
  AttentionInput unordered = in;
  unordered.visible.causal = false;
  EXPECT_THROW(attended(*attention, unordered), TraitError);
  in.queries = in.queries.narrow(2, 3, 1);
  EXPECT_THROW(attended(*attention, in), TraitError);
}

TEST(SelectiveAttention, EqualsItsEquationUnderEveryRule) {
  at::manual_seed(1);
  for (const auto& [name, in] : testing::inputs_for(kTraits)) {
    const auto attention = made(in);
    const Tensor expected = naive(in);
    testing::expect_attended(*attention, in, expected, name);
  }
}

/// Head 0 of query 2 has a large logit at one key, and no other.
AttentionInput with_a_selection(std::int64_t key) {
  AttentionInput in = testing::small_input(kTraits, 5);
  for (Tensor* x : {&in.queries, &in.keys}) x->select(1, 0).zero_();
  in.queries[0][0][2][0] = 40;
  in.keys[0][0][key][0] = 40;
  return in;
}

TEST(SelectiveAttention, WhatATokenSelectsIsMaskedForLaterOnesInAllHeads) {
  at::manual_seed(2);
  const AttentionInput in = with_a_selection(1);
  const Tensor weights = testing::traced(*made(in), in).weights;
  EXPECT_GT(weights[0][0][2][1].item<double>(), 0.99) << "the token itself sees it";
  EXPECT_GT(weights[0][1][2][1].item<double>(), 1e-4) << "also in other heads";
  EXPECT_LT(weights.narrow(2, 3, 2).select(3, 1).max().item<double>(), 1e-12)
      << "later ones do not";
  EXPECT_GT(weights.narrow(2, 3, 2).select(3, 3).min().item<double>(), 1e-4);
}

TEST(SelectiveAttention, NeitherTheFirstTokenNorATokenByItselfIsMasked) {
  at::manual_seed(3);
  for (const std::int64_t key : {0, 2}) {
    const AttentionInput in = with_a_selection(key);
    const LayerTrace seen = testing::traced(*made(in), in);
    EXPECT_EQ(seen.bias.abs().max().item<double>(), 0) << key;
  }
}

TEST(SelectiveAttention, PaddingNeitherMasksNorIsTheFirstToken) {
  at::manual_seed(4);
  const AttentionInput in = testing::small_input(kTraits, 6);
  testing::expect_padding_between_is_absence(*made(in), in);
}

TEST(SelectiveAttention, RecordsWhatItAddsToTheLogits) {
  at::manual_seed(5);
  const AttentionInput in = testing::small_input(kTraits, 5);
  const auto attention = made(in);
  const LayerTrace seen = testing::traced(*attention, in);
  EXPECT_LT(largest_difference(seen.bias, -naive_masks(in)), 1e-12);
  EXPECT_LT(largest_difference(at::matmul(seen.weights, in.values), attended(*attention, in)),
            1e-12);
}

TEST(SelectiveAttention, GradientsAreRightTwice) {
  at::manual_seed(6);
  const AttentionInput in = testing::small_input(kTraits, 4);
  testing::expect_gradients_right(
      *made(in), in, {&AttentionInput::queries, &AttentionInput::keys, &AttentionInput::values});
}

}  // namespace
}  // namespace attnlab::selective_test
