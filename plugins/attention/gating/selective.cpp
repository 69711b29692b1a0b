// Selective attention: tokens say which earlier ones later tokens need no longer see.
//
//   Y = softmax(Q Kᵀ / √D - F) V,   F_ij = sum over i' < i of S_i'j,   S = relu(logits of head 0)
//
// S is also 0 where i' may not see j, at j = i' (no token masks itself) and for the first token
// (nobody masks it). F is one for all heads; head 0 is an ordinary head besides. In an ensemble it
// is head 0 of each member. Against standard attention: no more parameters, and what has been
// masked stays so for all later tokens.
// In the published code it is the causal rule alone that hides pairs. Padding neither masks nor is
// the first token. Where a model adds a bias to the logits, S is made without it: it is what a
// query and a key say of each other.
// F needs the queries of all earlier tokens: lengths may not differ, and text is not written from
// cached keys.
// Source: Leviathan et al. 2024, Selective Attention Improves Transformer, arXiv 2410.02703. The
// paper's pruning of masked tokens from memory, and its loss for that, are not here.
// Cost: as standard attention, the logits of one head more, and a bias [B, 1, L, L] with its
// gradient.
#include <cmath>

#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/kernels/precision.h"
#include "framework/plugin.h"

namespace attnlab {

class Selective final : public DotProductAttention {
 public:
  static constexpr AttentionTraits kTraits = [] {
    AttentionTraits traits = AttentionTraits::ordered_quadratic();
    traits.different_lengths = false;
    return traits;
  }();

  Selective(const NoOptions&, const AttentionShape& shape)
      : DotProductAttention(shape, {}, kTraits), of_member_(shape.heads / shape.members) {}

  bool couples_queries() const override { return true; }

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    if (input.query_count() == 0) return DotProductAttention::attend(input, context);
    return attend_with_bias(input, -masked_so_far(input), context);
  }

 private:
  /// F, [B, H, L, L], or [B, 1, L, L] of a single model.
  Tensor masked_so_far(const AttentionInput& input) const {
    const Tensor selected = selection(input);
    // Row i takes what the rows before it selected: all move down by one.
    const Tensor none = at::zeros_like(selected.narrow(2, 0, 1));
    const Tensor sums = at::cat({none, selected.narrow(2, 0, selected.size(2) - 1)}, 2).cumsum(2);
    return shape().members == 1 ? sums : sums.repeat_interleave(of_member_, 1);
  }

  /// S, [B, members, L, L].
  Tensor selection(const AttentionInput& input) const {
    const double scale = 1 / std::sqrt(static_cast<double>(shape().head_dim));
    const Tensor logits =
        product(first_heads(input.queries, 1) * scale, first_heads(input.keys, 1).transpose(2, 3));
    return logits.relu().masked_fill(may_mask(input).logical_not(), 0);
  }

  /// bool, broadcastable to [B, members, L, L]: whether a query may mask a key for later queries.
  Tensor may_mask(const AttentionInput& input) const {
    const Visibility& visible = input.visible;
    const std::int64_t length = input.key_count();
    const Tensor keys =
        at::arange(length, at::TensorOptions().dtype(at::kLong).device(input.keys.device()));
    Tensor may = keys.unsqueeze(1) != keys;  // not itself
    const Tensor seen = visible_pairs(visible, length, length, input.keys.device());
    if (seen.defined()) may = may.logical_and(first_heads(seen, seen.dim() - 3));
    if (visible.query_valid.defined()) {
      may = may.logical_and(visible.query_valid.unsqueeze(1).unsqueeze(-1));
    }
    if (!visible.key_valid.defined()) return may.logical_and(keys != 0);
    // Of the real tokens all but the first.
    return may.logical_and((visible.key_valid.cumsum(1) > 1).unsqueeze(1).unsqueeze(1));
  }

  /// Head 0 of each member, along a dimension that may be missing (below 0) or broadcast.
  Tensor first_heads(const Tensor& x, std::int64_t dim) const {
    return dim < 0 || x.size(dim) == 1 ? x : x.slice(dim, 0, x.size(dim), of_member_);
  }

  std::int64_t of_member_;  ///< heads of a member
};

ATTNLAB_PLUGIN(attention, Selective, NoOptions,
               {.id = "attnlab/selective",
                .version = "1.0.0",
                .summary = "softmax(Q Kᵀ / √D - F) V: earlier queries mask keys for later ones",
                .citation = "Leviathan et al. 2024, Selective Attention Improves Transformer, "
                            "arXiv 2410.02703",
                .licence = "Apache-2.0"})

}  // namespace attnlab
