// Mixture of block attention (MoBA): each query sees its own block of keys and the best of those
// before it.
//
//   Y = softmax(Q Kᵀ / √D over the keys of chosen blocks) V
//   chosen of query i: its own block, and of those before it the top_k - 1 with the largest s_ib,
//   s_ib = q_i · (mean of the keys of block b)
//
// for each head. Blocks are `block` tokens each from the sequence's beginning; within a query's own
// block the causal rule holds, and no later block is seen. Query i stands at key i + Lk - Lq. The
// choice has no parameters and no gradient: keys learn through the weights of the blocks that are
// chosen. Where there are no more than top_k blocks it is standard attention.
// Padding is in no block. Keys that are hidden by a window or a pair mask count in their block's
// mean, and a bias that a model adds to the logits has no part in the choice. The paper's blocks
// have 512 tokens, three to a query, in texts of 8192; here texts are shorter, and so is `block`.
// The rule is one for text: without the causal rule the paper has none, and this is refused.
// A trace has the logits of all visible pairs, those of blocks that are not chosen, too.
// Source: Lu et al. 2025, MoBA: Mixture of Block Attention for Long-Context LLMs, arXiv 2502.13189,
// and the plain form of its public code.
// Cost: that of standard attention with a pair mask [B, H, Lq, Lk], and Lq Lk D / block for the
// choice. It shows what the paper's model computes; it has none of its savings.
#include <c10/core/GradMode.h>

#include <cmath>
#include <limits>

#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/key_blocks.h"
#include "framework/nn/kernels/precision.h"
#include "framework/plugin.h"
#include "framework/tensor/by_distance.h"

namespace attnlab {

struct MobaOptions {
  std::int64_t block = 64;
  std::int64_t top_k = 3;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("block", block, range(1, 1 << 20), "tokens per block");
    v("top_k", top_k, range(1, 1 << 20), "blocks that a query sees, including its own");
  }
};

class Moba final : public DotProductAttention {
 public:
  static constexpr AttentionTraits kTraits = AttentionTraits::ordered_quadratic();

  Moba(const MobaOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape, {}, kTraits), block_(options.block), top_k_(options.top_k) {}

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    if (input.key_count() <= block_ * top_k_ || input.query_count() == 0) {
      return DotProductAttention::attend(input, context);
    }
    AttentionInput some = input;
    const Tensor chosen = pairs_of_chosen_blocks(input);
    Tensor& pairs = some.visible.pairs;
    pairs = pairs.defined() ? pairs.logical_and(chosen) : chosen;
    AttentionTrace* const whole = context.trace;
    if (whole == nullptr || !whole->logits) return DotProductAttention::attend(some, context);
    AttentionTrace own = *whole;
    own.layers.clear();
    own.logits = false;
    own.on_layer = [&](LayerTrace layer) {
      layer.logits = whole->attached ? logits(input) : logits(input).detach();
      whole->take(std::move(layer));
    };
    AttentionContext inner = context;
    inner.trace = &own;
    return DotProductAttention::attend(some, inner);
  }

 private:
  /// bool, [B, H, Lq, Lk]: whether the key's block is one of the query's.
  Tensor pairs_of_chosen_blocks(const AttentionInput& input) const {
    const at::NoGradGuard no_gradients;
    const KeyBlocks blocks(input, block_, shape().members);
    const Tensor gates = product(input.queries, blocks.means(input.keys))
                             .masked_fill(blocks.numbers == blocks.own, kInfinity);
    return blocks.for_keys(blocks.best(gates, top_k_));
  }

  /// Of all visible pairs, those that are not chosen among them: -inf where the model hides one.
  Tensor logits(const AttentionInput& input) const {
    const double scale = 1 / std::sqrt(static_cast<double>(shape().head_dim));
    Tensor all = product(input.queries * scale, input.keys.transpose(2, 3));
    if (input.bias.defined()) all = all + input.bias;
    if (input.distance_bias.defined()) {
      all = all + pairs_of_distances(input.distance_bias, input.key_count());
    }
    const Tensor visible =
        visible_pairs(input.visible, input.query_count(), input.key_count(), all.device());
    return visible.defined() ? all.masked_fill(visible.logical_not(), -kInfinity) : all;
  }

  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  std::int64_t block_, top_k_;
};

ATTNLAB_PLUGIN(attention, Moba, MobaOptions,
               {.id = "attnlab/moba",
                .version = "1.0.0",
                .summary = "softmax(Q Kᵀ / √D) V over the best blocks of keys: MoBA",
                .citation = "Lu et al. 2025, MoBA: Mixture of Block Attention for Long-Context "
                            "LLMs, arXiv 2502.13189",
                .licence = "Apache-2.0"})

}  // namespace attnlab
