// Contextual position encoding (CoPE): a key's position is how many tokens since then count for the
// query.
//
//   Y = softmax(Q Kᵀ / √D + P) V,   P_ij = q_i · e(p_ij),   p_ij = sum over k = j .. i of g_ik,
//   g_ik = σ(q_i · k_k / √D)
//
// e is learned at the positions 0, 1, .., `max_positions` - 1 and linear in between; p is at most
// the last of these. One table serves all heads of a layer, zeros at the start: standard attention
// without positions. Against positions that count tokens: queries choose what they count, such as
// words or sentences. Hidden keys and padding do not count; a bias that a model adds to the logits
// has no part in the gates.
// The paper's equations leave 1/√D out. Its listing, followed here, has it in the gates and in
// q · k, not in q · e; the authors' training code divides q · e by √D, too, a factor of e. Relative
// positions besides are refused: CoPE takes their place.
// Source: Golovneva et al. 2024, Contextual Position Encoding: Learning to Count What's Important,
// arXiv 2405.18719, and its listing.
// Cost: as standard attention, the logits twice, sums along them, and a bias [B, H, Lq, Lk] with
// its gradient.
#include <cmath>

#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/kernels/precision.h"
#include "framework/plugin.h"

namespace attnlab {

struct CopeOptions {
  std::int64_t max_positions = 64;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("max_positions", max_positions, range(2, 1 << 20),
      "number of learned positions; larger ones count as the last");
  }
};

class Cope final : public DotProductAttention {
 public:
  static constexpr AttentionTraits kTraits = AttentionTraits::ordered_quadratic();

  Cope(const CopeOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape, {}, kTraits), positions_(options.max_positions) {
    table_ = register_parameter("table", at::zeros({shape.members * positions_, shape.head_dim}));
  }

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    if (input.query_count() == 0 || input.key_count() == 0) {
      return DotProductAttention::attend(input, context);
    }
    return attend_with_bias(input, at_positions(input.queries, counted(input)), context);
  }

 private:
  /// p, [B, H, Lq, Lk].
  Tensor counted(const AttentionInput& input) const {
    const double scale = 1 / std::sqrt(static_cast<double>(shape().head_dim));
    Tensor gates = product(input.queries * scale, input.keys.transpose(2, 3)).sigmoid();
    const Tensor visible =
        visible_pairs(input.visible, input.query_count(), input.key_count(), input.keys.device());
    if (visible.defined()) gates = gates.masked_fill(visible.logical_not(), 0);
    return gates.flip(-1).cumsum(-1).flip(-1).clamp_max(static_cast<double>(positions_ - 1));
  }

  /// P, of the shape of the positions.
  Tensor at_positions(const Tensor& queries, const Tensor& positions) const {
    const Tensor logits = product(queries, tables().transpose(1, 2));  // [B, H, Lq, max_positions]
    const Tensor whole = positions.detach().floor();
    const Tensor below = logits.gather(-1, whole.to(at::kLong));
    const Tensor above = logits.gather(-1, positions.detach().ceil().to(at::kLong));
    return below + (positions - whole) * (above - below);
  }

  /// e of each head: [H or 1, max_positions, D].
  Tensor tables() const {
    const std::int64_t members = shape().members;
    const Tensor each = table_.view({members, positions_, shape().head_dim});
    return members == 1 ? each : each.repeat_interleave(shape().heads / members, 0);
  }

  std::int64_t positions_;
  Tensor table_;  ///< e, [members * max_positions, D]
};

ATTNLAB_PLUGIN(
    attention, Cope, CopeOptions,
    {.id = "attnlab/cope",
     .version = "1.0.0",
     .summary = "softmax(Q Kᵀ / √D + q · e(p)) V, p the tokens that the query counts",
     .citation = "Golovneva et al. 2024, Contextual Position Encoding: Learning to Count "
                 "What's Important, arXiv 2405.18719",
     .licence = "Apache-2.0"})

}  // namespace attnlab
