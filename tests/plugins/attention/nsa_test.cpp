// Native sparse attention: gated softmaxes over blocks as one key each, the best blocks, and the
// nearest keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/support/sourced_input.h"

namespace attnlab::nsa_test {
namespace {

using testing::attended;
using testing::Index;
using testing::largest_difference;
using testing::Row;

constexpr AttentionTraits kTraits{.causal = true,
                                  .padding = true,
                                  .different_lengths = true,
                                  .different_source = true,
                                  .second_order = true,
                                  .sources = true,
                                  .ordered = true};

struct Sizes {
  Index block, top_k, window;

  std::string options() const {
    return "{block: " + std::to_string(block) + ", top_k: " + std::to_string(top_k) +
           ", window: " + std::to_string(window) + "}";
  }
};

/// The equation for one input, one number at a time.
struct Naive {
  const AttentionInput& in;
  Sizes sizes;

  bool is_real(Index b, Index j) const {
    return !in.visible.key_valid.defined() ||
           testing::at_pair(in.visible.key_valid, 0, 0, b, j) != 0;
  }
  bool asks(Index b, Index i) const {
    return !in.visible.query_valid.defined() || in.visible.query_valid[b][i].item<bool>();
  }
  Index place_of(Index i) const { return i + in.key_count() - in.query_count(); }
  Index blocks() const { return (in.key_count() + sizes.block - 1) / sizes.block; }
  /// Real tokens up to a key.
  Index seen(Index b, Index j) const {
    Index count = 0;
    for (Index k = 0; k <= j; ++k) count += is_real(b, k);
    return count;
  }
  Index block_of(Index b, Index j) const {
    return std::max<Index>(seen(b, j) - 1, 0) / sizes.block;
  }
  bool is_complete(Index b, Index i, Index block) const {
    return asks(b, i) && (block + 1) * sizes.block <= seen(b, place_of(i));
  }
  /// q_i · the mean of a block's keys.
  double score(Index b, Index h, Index i, Index block) const {
    const Row query = testing::row(in.queries, {b, h, i});
    double sum = 0, count = 0;
    for (Index j = 0; j < in.key_count(); ++j) {
      if (!is_real(b, j) || block_of(b, j) != block) continue;
      sum += testing::dot(query, testing::row(in.keys, {b, h, j}));
      ++count;
    }
    return sum / std::max(count, 1.0);
  }
  bool is_chosen(Index b, Index h, Index i, Index j) const {
    if (place_of(i) < 0) return false;
    const Index own = block_of(b, place_of(i)), block = block_of(b, j);
    if (block > own) return false;
    const auto always = [&](Index one) { return one == 0 || one >= own - 1; };
    if (always(block)) return true;
    Index before = 0;
    for (Index other = 0; other <= own; ++other) {
      before += always(other) || score(b, h, i, other) > score(b, h, i, block);
    }
    return before < sizes.top_k;
  }

  /// Of the blocks, [B, H, Lq, blocks].
  Tensor coarse_weights() const {
    Tensor logits = at::zeros({in.batch(), in.heads(), in.query_count(), blocks()}, at::kDouble);
    Tensor visible = at::zeros_like(logits, logits.options().dtype(at::kBool));
    auto to = logits.accessor<double, 4>();
    auto sees = visible.accessor<bool, 4>();
    testing::each_pair(logits, [&](Index b, Index h, Index i, Index block) {
      to[b][h][i][block] = 0.5 * score(b, h, i, block);
      sees[b][h][i][block] = is_complete(b, i, block);
    });
    return testing::naive_softmax(logits, visible);
  }

  /// What each key's value counts, [B, H, Lq, Lk].
  Tensor weights(const Attention& attention) const {
    const Tensor logits = testing::naive_logits(in, {.scale = 0.5});
    Tensor chosen = testing::naive_visible(in), near = chosen.clone();
    auto is_in = chosen.accessor<bool, 4>(), is_near = near.accessor<bool, 4>();
    testing::each_pair(chosen, [&](Index b, Index h, Index i, Index j) {
      if (!is_in[b][h][i][j]) return;
      is_in[b][h][i][j] = is_chosen(b, h, i, j);
      is_near[b][h][i][j] = seen(b, place_of(i)) - seen(b, j) < sizes.window;
    });
    const Tensor parts[] = {coarse_weights(), testing::naive_softmax(logits, chosen),
                            testing::naive_softmax(logits, near)};
    const Tensor gates = testing::naive_source_map(attention, "gates", in.query_source, 3);
    Tensor all = at::zeros_like(logits);
    auto to = all.accessor<double, 4>();
    testing::each_pair(all, [&](Index b, Index h, Index i, Index j) {
      const auto gate = [&](Index n) {
        return 1 / (1 + std::exp(-testing::at_pair(gates, b, h, i, n)));
      };
      const double coarse = testing::at_pair(parts[0], b, h, i, block_of(b, j));
      if (is_real(b, j)) to[b][h][i][j] = gate(0) * coarse / static_cast<double>(sizes.block);
      for (Index n = 1; n < 3; ++n) {
        to[b][h][i][j] += gate(n) * testing::at_pair(parts[n], b, h, i, j);
      }
    });
    return all;
  }
};

Tensor naive(const Attention& attention, const AttentionInput& in, const Sizes& sizes) {
  return testing::weighed(Naive{in, sizes}.weights(attention), in.values);
}

std::shared_ptr<Attention> made(const AttentionInput& in, const Sizes& sizes) {
  return testing::drawn_attention("nsa", in, sizes.options());
}

/// Sets what the gates of a part are made of, where sources are ones.
void set_gates(Attention& attention, Index part, double number) {
  const at::NoGradGuard no_gradients;
  Tensor map = attention.parameters()[0];
  for (Index row = part; row < map.size(0); row += 3) map[row].fill_(number);
}

TEST(NsaAttention, NeedsAnOrderAndItsSource) {
  AttentionInput in = testing::small_input(kTraits, 4);
  const auto attention = testing::drawn_attention("nsa", in);
  EXPECT_EQ(attention->traits(), kTraits);
  EXPECT_EQ(testing::parameter_count(*attention), 5 * 2 * 3);
  in.visible.causal = false;
  EXPECT_THROW(attended(*attention, in), TraitError);
  EXPECT_THROW(testing::make_attention("nsa", testing::shape_of(in)), ConfigError);
  for (const auto& [option, wrong] :
       {std::pair("block", "0"), std::pair("top_k", "2"), std::pair("window", "0")}) {
    EXPECT_THAT(testing::message_of<ConfigError>([&] {
                  testing::drawn_attention("nsa", in,
                                           std::string("{") + option + ": " + wrong + "}");
                }),
                ::testing::HasSubstr(option));
  }
}

TEST(NsaAttention, EqualsItsEquationUnderEveryRule) {
  at::manual_seed(1);
  for (const Sizes& sizes : {Sizes{2, 3, 2}, Sizes{1, 4, 1}, Sizes{1, 3, 3}, Sizes{64, 4, 64}}) {
    for (const auto& [name, in] : testing::inputs_for(kTraits)) {
      const auto attention = made(in, sizes);
      const Tensor expected = naive(*attention, in, sizes);
      EXPECT_LT(largest_difference(attended(*attention, in), expected), 1e-10)
          << name << sizes.options();
      AttentionTrace trace;
      EXPECT_LT(largest_difference(attended(*attention, in, &trace), expected), 1e-10) << name;
    }
  }
}

TEST(NsaAttention, EqualsItsEquationForManyBlocksWithPaddingBetween) {
  at::manual_seed(2);
  const Sizes sizes{3, 4, 4};
  for (const auto& [queries, keys] : {std::pair(25, 25), std::pair(5, 26), std::pair(28, 23)}) {
    AttentionInput in = testing::with_sources(testing::random_input(2, 2, queries, keys, 4, 3));
    in.visible.causal = true;
    in.visible.key_valid = at::rand({2, keys}) < 0.8;
    const auto attention = made(in, sizes);
    EXPECT_LT(largest_difference(attended(*attention, in), naive(*attention, in, sizes)), 1e-10)
        << queries;
  }
}

TEST(NsaAttention, IsGatedStandardAttentionBeforeTheFirstBlockIsComplete) {
  at::manual_seed(3);
  const AttentionInput in = testing::small_input(kTraits, 7);
  const auto attention = made(in, {8, 3, 7});
  const Tensor standard =
      attended(*testing::drawn_attention("standard", in), testing::without_sources(in));
  const Tensor gates = testing::naive_source_map(*attention, "gates", in.query_source, 3).sigmoid();
  EXPECT_LT(largest_difference(attended(*attention, in),
                               standard * gates.narrow(-1, 1, 2).sum(-1, /*keepdim=*/true)),
            1e-12);
}

TEST(NsaAttention, SeesTheBlockOfTheBestMeanBesideThoseItAlwaysSees) {
  at::manual_seed(4);
  AttentionInput in = testing::small_input(kTraits, 15);  // five blocks of three
  in.queries.fill_(1);
  in.keys.fill_(0);
  in.keys.narrow(2, 3, 3).fill_(0.1);
  in.keys.select(2, 7).fill_(-5);
  in.keys.select(2, 8).fill_(4.9);  // the best key, but not in the block of the best mean
  const auto last = [&](Index top_k) {
    const auto attention = made(in, {3, top_k, 1});
    for (Index part = 0; part < 3; ++part) set_gates(*attention, part, 0);
    return testing::traced(*attention, in).weights.select(2, 14);
  };
  const Tensor fewer = last(3), more = last(4) - fewer;
  EXPECT_GT(more.narrow(2, 3, 3).min().item<double>(), 0.01);
  EXPECT_EQ(more.narrow(2, 6, 3).abs().max().item<double>(), 0);
  for (const Index taken_from : {0, 9, 12}) {
    EXPECT_LT(more.narrow(2, taken_from, 3).max().item<double>(), 0) << taken_from;
  }
  // As one key each, earlier blocks count wherever they are.
  EXPECT_GT(fewer.narrow(2, 0, 12).min().item<double>(), 1e-3);
}

TEST(NsaAttention, OtherBlocksLearnAsOneKeyAlone) {
  at::manual_seed(5);
  AttentionInput in = testing::small_input(kTraits, 10);  // five blocks, of which three are seen
  in.query_source.fill_(1);
  const auto gradient_sizes = [&](double number) {
    const auto attention = made(in, {2, 3, 2});
    set_gates(*attention, 0, number);
    AttentionInput learned = in;
    learned.keys = in.keys.clone().requires_grad_();
    attended(*attention, learned).select(2, 9).sum().backward();
    return learned.keys.grad().abs().sum(-1);
  };
  EXPECT_GT(gradient_sizes(0).min().item<double>(), 0);
  const Tensor closed = gradient_sizes(-1000);
  EXPECT_EQ(closed.narrow(2, 2, 4).max().item<double>(), 0);
  EXPECT_GT(closed.narrow(2, 0, 2).min().item<double>(), 0);
  EXPECT_GT(closed.narrow(2, 6, 4).min().item<double>(), 0);
}

TEST(NsaAttention, PaddingIsInNoBlockAndNotInTheWindow) {
  at::manual_seed(6);
  const AttentionInput in = testing::small_input(kTraits, 6);
  testing::expect_padding_between_is_absence(*made(in, {1, 3, 2}), in);
}

TEST(NsaAttention, ATraceHasTheWeightsOfTheValues) {
  at::manual_seed(7);
  const Sizes sizes{2, 3, 2};
  AttentionInput in = testing::small_input(kTraits, 9);
  in.visible.key_valid = at::ones({1, 9}, at::kBool);
  in.visible.key_valid[0][3] = false;
  const auto attention = made(in, sizes);
  const LayerTrace seen = testing::traced(*attention, in);
  EXPECT_LT(largest_difference(seen.weights, Naive{in, sizes}.weights(*attention)), 1e-12);
  EXPECT_LT(largest_difference(seen.entropy, -at::xlogy(seen.weights, seen.weights).sum(-1)),
            1e-12);
  EXPECT_FALSE(seen.logits.defined());
  EXPECT_TRUE(at::equal(seen.key_norms, in.keys.norm(2, -1)));
  EXPECT_TRUE(at::equal(seen.query_norms, in.queries.norm(2, -1)));
}

TEST(NsaAttention, GradientsAreRightTwice) {
  at::manual_seed(8);
  const AttentionInput in = testing::small_input(kTraits, 8);
  testing::expect_gradients_right(*made(in, {2, 3, 2}), in,
                                  {&AttentionInput::queries, &AttentionInput::keys,
                                   &AttentionInput::values, &AttentionInput::query_source});
}

}  // namespace
}  // namespace attnlab::nsa_test
