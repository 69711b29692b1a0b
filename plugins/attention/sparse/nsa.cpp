// Native sparse attention (NSA): each query sees all earlier blocks of keys as one key each, the
// best of these blocks token by token, and its nearest tokens.
//
//   Y = g₁ ⊙ attend(Q, K̄, V̄) + g₂ ⊙ attend(Q, keys of chosen blocks) + g₃ ⊙ attend(Q, nearest keys)
//   attend(Q, K, V) = softmax(Q Kᵀ / √D) V,   g = σ(X W)
//   K̄, V̄: the mean of each block of `block` tokens that ends at the query or before
//   chosen of query i: the first block, its own, the one before, and of the others up to `top_k` in
//   all those with the largest q_i · k̄
//   nearest: the last `window` tokens, the query's own among them
//
// for each head; X is what the queries are projected from, and W, without a bias, starts small, so
// that gates start near 1/2. The choice has no gradient: what blocks stand for is learned through
// the first part. Query i stands at key i + Lk - Lq; within the second and third part the causal
// rule holds. A query with no complete block before it has zeros for the first part.
// As in the public code, a block stands for its mean and the three parts share keys and values; the
// paper learns a small network of each block, whose blocks overlap, and gives each part keys and
// values of its own. Left out: heads that share keys choose blocks together there; here each head
// chooses for itself. Its texts have 8192 tokens or more, blocks of 64, 16 of them, a window of
// 512; here texts are shorter, and so is all of this.
// Padding is in no block and does not count in the window. The rule is one for text: without the
// causal rule the paper has none, and this is refused, as are biases and masks by pair and windows
// of the model, which say nothing of a block as one key.
// A trace has the weights of values in all, which sum to the gates of the parts that see something,
// and no logits: each pair has several.
// Source: Yuan et al. 2025, Native Sparse Attention: Hardware-Aligned and Natively Trainable Sparse
// Attention, arXiv 2502.11089, and the plain form of a public code (flash-linear-attention).
// Cost: that of standard attention with a pair mask [B, H, Lq, Lk], twice, and Lq Lk (2 D + Dv) /
// block. It shows what the paper's model computes; it has none of its savings.
#include <c10/core/GradMode.h>

#include <limits>

#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/key_blocks.h"
#include "framework/nn/attention/source_map.h"
#include "framework/plugin.h"

namespace attnlab {

struct NsaOptions {
  std::int64_t block = 32;
  std::int64_t top_k = 4;
  std::int64_t window = 64;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("block", block, range(1, 1 << 20), "tokens per block");
    v("top_k", top_k, range(3, 1 << 20),
      "blocks that a query sees token by token, including the first, its own and the one before");
    v("window", window, range(1, 1 << 20), "nearest tokens that a query sees, including itself");
  }
};

class Nsa final : public DotProductAttention {
 public:
  static constexpr AttentionTraits kTraits{.causal = true,
                                           .padding = true,
                                           .different_lengths = true,
                                           .different_source = true,
                                           .second_order = true,
                                           .sources = true,
                                           .ordered = true};

  Nsa(const NsaOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape, {}, kTraits),
        options_(options),
        gates_(register_module("gates", std::make_shared<SourceMap>(shape.query_width, 3, shape, 0,
                                                                    /*bias=*/false))) {}

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    if (input.query_count() == 0 || input.key_count() == 0) {
      return DotProductAttention::attend(input, context);
    }
    const KeyBlocks blocks(input, options_.block, shape().members);
    const Tensor gates = gates_->forward(input.query_source).sigmoid();  // [B, H, Lq, 3]
    const AttentionInput asked[] = {by_blocks(input, blocks), by_chosen(input, blocks),
                                    by_nearest(input, blocks)};
    LayerTrace seen[3];
    Tensor out;
    for (std::int64_t n = 0; n < 3; ++n) {
      const Tensor part = attend_noting(asked[n], context, seen[n]) * gates.narrow(-1, n, 1);
      out = out.defined() ? out + part : part;
    }
    if (context.trace != nullptr) record(seen, gates, blocks, context);
    return out;
  }

 private:
  /// Keys and values are the means of blocks; a query sees those that are complete where it stands.
  AttentionInput by_blocks(const AttentionInput& input, const KeyBlocks& blocks) const {
    AttentionInput coarse = input;
    coarse.keys = blocks.means(input.keys).transpose(2, 3);
    coarse.values = blocks.means(input.values).transpose(2, 3);
    coarse.visible = {};
    coarse.visible.pairs = complete(blocks);
    return coarse;
  }

  AttentionInput by_chosen(const AttentionInput& input, const KeyBlocks& blocks) const {
    const at::NoGradGuard no_gradients;
    AttentionInput some = input;
    const Tensor always = (blocks.numbers == 0)
                              .logical_or(blocks.numbers == blocks.own)
                              .logical_or(blocks.numbers == blocks.own - 1);
    const Tensor scores = product(input.queries, blocks.means(input.keys))
                              .masked_fill(always, std::numeric_limits<double>::infinity());
    some.visible.pairs = blocks.for_keys(blocks.best(scores, options_.top_k));
    return some;
  }

  AttentionInput by_nearest(const AttentionInput& input, const KeyBlocks& blocks) const {
    AttentionInput near = input;
    near.visible.pairs =
        blocks.seen_by_queries - blocks.seen_by_keys.unsqueeze(-2) < options_.window;
    return near;
  }

  /// bool, [B or 1, H or 1, Lq, blocks]: whether all tokens of a block are seen by the query.
  Tensor complete(const KeyBlocks& blocks) const {
    return (blocks.numbers + 1) * options_.block <= blocks.seen_by_queries;
  }

  /// @param seen  of the three parts; the second has the norms of the layer's own keys
  void record(LayerTrace (&seen)[3], const Tensor& gates, const KeyBlocks& blocks,
              AttentionContext& context) const {
    AttentionTrace& asked = *context.trace;
    LayerTrace layer = seen[1];
    layer.layer = context.layer;
    if (layer.weights.defined()) {
      const Tensor shares = asked.attached ? gates : gates.detach();
      // A mean is the sum of its tokens, each by 1 / block; padding is in none.
      Tensor coarse = blocks.for_keys(seen[0].weights / options_.block);
      if (blocks.present().defined()) {
        coarse = coarse.masked_fill(blocks.present().unsqueeze(-2).logical_not(), 0);
      }
      const Tensor weights = coarse * shares.narrow(-1, 0, 1) +
                             seen[1].weights * shares.narrow(-1, 1, 1) +
                             seen[2].weights * shares.narrow(-1, 2, 1);
      if (asked.entropy) layer.entropy = -at::xlogy(weights, weights).sum(-1);
      layer.weights = asked.weights ? weights : Tensor();
    }
    asked.take(std::move(layer));
  }

  NsaOptions options_;
  std::shared_ptr<SourceMap> gates_;
};

ATTNLAB_PLUGIN(attention, Nsa, NsaOptions,
               {.id = "attnlab/nsa",
                .version = "1.0.0",
                .summary = "gated sum of compressed blocks, the best blocks and a window: NSA",
                .citation = "Yuan et al. 2025, Native Sparse Attention: Hardware-Aligned and "
                            "Natively Trainable Sparse Attention, arXiv 2502.11089",
                .licence = "Apache-2.0"})

}  // namespace attnlab
