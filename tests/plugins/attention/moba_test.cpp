// Mixture of block attention: softmax over the keys of each query's own block and of the best
// before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/support/sourced_input.h"

namespace attnlab::moba_test {
namespace {

using testing::attended;
using testing::Index;
using testing::largest_difference;
using testing::Row;

constexpr AttentionTraits kTraits = AttentionTraits::ordered_quadratic();

struct Blocks {
  Index size, chosen;  ///< `block` and `top_k`

  std::string options() const {
    return "{block: " + std::to_string(size) + ", top_k: " + std::to_string(chosen) + "}";
  }
};

bool is_real(const AttentionInput& in, Index b, Index j) {
  return !in.visible.key_valid.defined() || testing::at_pair(in.visible.key_valid, 0, 0, b, j) != 0;
}

/// The block of key j, counted over real tokens.
Index block_of(const AttentionInput& in, const Blocks& blocks, Index b, Index j) {
  Index place = -1;
  for (Index k = 0; k <= j; ++k) place += is_real(in, b, k);
  return std::max<Index>(place, 0) / blocks.size;
}

/// q_i · the mean of a block's keys.
double gate(const AttentionInput& in, const Blocks& blocks, Index b, Index h, Index i,
            Index block) {
  Row mean(static_cast<std::size_t>(in.keys.size(3)));
  double count = 0;
  for (Index j = 0; j < in.key_count(); ++j) {
    if (!is_real(in, b, j) || block_of(in, blocks, b, j) != block) continue;
    const Row key = testing::row(in.keys, {b, h, j});
    for (std::size_t c = 0; c < mean.size(); ++c) mean[c] += key[c];
    ++count;
  }
  return testing::dot(mean, testing::row(in.queries, {b, h, i})) / std::max(count, 1.0);
}

/// Whether key j's block is among those of query i.
bool is_chosen(const AttentionInput& in, const Blocks& blocks, Index b, Index h, Index i, Index j) {
  const Index place = i + in.key_count() - in.query_count();
  if (place < 0) return false;
  const Index own = block_of(in, blocks, b, place), block = block_of(in, blocks, b, j);
  if (block >= own) return block == own;
  Index better = 0;
  for (Index other = 0; other < own; ++other) {
    better += gate(in, blocks, b, h, i, other) > gate(in, blocks, b, h, i, block);
  }
  return better < blocks.chosen - 1;
}

Tensor naive_weights(const AttentionInput& in, const Blocks& blocks) {
  Tensor visible = testing::naive_visible(in);
  auto sees = visible.accessor<bool, 4>();
  testing::each_pair(visible, [&](Index b, Index h, Index i, Index j) {
    if (sees[b][h][i][j]) sees[b][h][i][j] = is_chosen(in, blocks, b, h, i, j);
  });
  return testing::naive_softmax(testing::naive_logits(in, {.scale = 0.5}), visible);
}

Tensor naive(const AttentionInput& in, const Blocks& blocks) {
  return testing::weighed(naive_weights(in, blocks), in.values);
}

std::shared_ptr<Attention> made(const AttentionInput& in, const Blocks& blocks) {
  return testing::drawn_attention("moba", in, blocks.options());
}

TEST(MobaAttention, NeedsAnOrderAndLearnsNothing) {
  AttentionInput in = testing::small_input(kTraits, 4);
  const auto attention = testing::drawn_attention("moba", in);
  EXPECT_EQ(attention->traits(), kTraits);
  EXPECT_EQ(testing::parameter_count(*attention), 0);
  in.visible.causal = false;
  EXPECT_THROW(attended(*attention, in), TraitError);
  for (const std::string option : {"block", "top_k"}) {
    EXPECT_THAT(testing::message_of<ConfigError>(
                    [&] { testing::drawn_attention("moba", in, "{" + option + ": 0}"); }),
                ::testing::HasSubstr(option));
  }
}

TEST(MobaAttention, EqualsItsEquationUnderEveryRule) {
  at::manual_seed(1);
  for (const Blocks& blocks : {Blocks{2, 2}, Blocks{2, 1}, Blocks{1, 3}, Blocks{64, 3}}) {
    for (const auto& [name, in] : testing::inputs_for(kTraits)) {
      const auto attention = made(in, blocks);
      const Tensor expected = naive(in, blocks);
      EXPECT_LT(largest_difference(attended(*attention, in), expected), 1e-10)
          << name << blocks.options();
      AttentionTrace trace;
      EXPECT_LT(largest_difference(attended(*attention, in, &trace), expected), 1e-10) << name;
    }
  }
}

TEST(MobaAttention, EqualsItsEquationForManyBlocksWithPaddingBetween) {
  at::manual_seed(2);
  const Blocks blocks{3, 3};
  for (const auto& [queries, keys] : {std::pair(18, 18), std::pair(5, 19), std::pair(21, 16)}) {
    AttentionInput in = testing::random_input(2, 2, queries, keys, 4, 3);
    in.visible.causal = true;
    in.visible.key_valid = at::rand({2, keys}) < 0.8;
    EXPECT_LT(largest_difference(attended(*made(in, blocks), in), naive(in, blocks)), 1e-10)
        << queries;
  }
}

TEST(MobaAttention, IsStandardAttentionWhereAllBlocksAreChosen) {
  at::manual_seed(3);
  AttentionInput in = testing::small_input(kTraits, 12);
  const Tensor standard = attended(*testing::drawn_attention("standard", in), in);
  for (const Blocks& blocks : {Blocks{4, 3}, Blocks{5, 4}, Blocks{12, 1}}) {
    EXPECT_LT(largest_difference(attended(*made(in, blocks), in), standard), 1e-12);
  }
  EXPECT_GT(largest_difference(attended(*made(in, {4, 2}), in), standard), 1e-2);
}

TEST(MobaAttention, SeesItsOwnBlockAndThatOfTheBestMean) {
  at::manual_seed(4);
  AttentionInput in = testing::small_input(kTraits, 9);  // three blocks of three
  in.queries.fill_(1);
  in.keys.fill_(0);
  in.keys.narrow(2, 0, 3).fill_(0.1);
  in.keys.select(2, 4).fill_(-5);
  in.keys.select(2, 5).fill_(4.9);  // the best key, but not in the block of the best mean
  const Tensor weights = testing::traced(*made(in, {3, 2}), in).weights;
  const Tensor last = weights.select(2, 8);
  EXPECT_GT(last.narrow(2, 0, 3).min().item<double>(), 0.1);
  EXPECT_EQ(last.narrow(2, 3, 3).max().item<double>(), 0);
  EXPECT_GT(last.narrow(2, 6, 3).min().item<double>(), 0.1);
  const Tensor alone = testing::traced(*made(in, {3, 1}), in).weights.select(2, 8);
  EXPECT_EQ(alone.narrow(2, 0, 6).max().item<double>(), 0);
}

TEST(MobaAttention, KeysOfOtherBlocksTakeNoGradient) {
  at::manual_seed(5);
  AttentionInput in = testing::small_input(kTraits, 6);
  in.keys = in.keys.clone().requires_grad_();
  attended(*made(in, {2, 1}), in).select(2, 5).sum().backward();
  const Tensor sizes = in.keys.grad().abs().sum(-1);
  EXPECT_EQ(sizes.narrow(2, 0, 4).max().item<double>(), 0);
  EXPECT_GT(sizes.narrow(2, 4, 2).min().item<double>(), 0);
}

TEST(MobaAttention, PaddingIsInNoBlock) {
  at::manual_seed(6);
  const AttentionInput in = testing::small_input(kTraits, 6);
  testing::expect_padding_between_is_absence(*made(in, {1, 2}), in);
}

TEST(MobaAttention, ATraceHasTheLogitsOfAllVisiblePairs) {
  at::manual_seed(7);
  const Blocks blocks{2, 2};
  AttentionInput in = testing::small_input(kTraits, 7);
  in.bias = at::randn({7, 7}, at::kDouble);
  const LayerTrace seen = testing::traced(*made(in, blocks), in);
  EXPECT_LT(largest_difference(seen.weights, naive_weights(in, blocks)), 1e-12);
  const Tensor hidden = at::ones({7, 7}, at::kBool).triu(1);
  EXPECT_TRUE(seen.logits.masked_select(hidden).isneginf().all().item<bool>());
  EXPECT_LT(largest_difference(seen.logits.masked_fill(hidden, 0),
                               testing::naive_logits(in, {.scale = 0.5}).masked_fill(hidden, 0)),
            1e-12);
}

TEST(MobaAttention, GradientsAreRightTwice) {
  at::manual_seed(8);
  const AttentionInput in = testing::small_input(kTraits, 6);
  testing::expect_gradients_right(
      *made(in, {2, 2}), in,
      {&AttentionInput::queries, &AttentionInput::keys, &AttentionInput::values});
}

}  // namespace
}  // namespace attnlab::moba_test
