// Talking heads: logits are mixed between heads before the softmax, and weights after it.
//
//   Y_h = sum_g R_hg softmax(sum_f P_gf L_f) V_h,   L_f = Q_f K_fᵀ / √D
//
// P and R are learned, [H, H]. Against standard attention: what one head finds can guide the
// others; rows of the mixed weights need not sum to one, and weights may be negative. A bias that a
// model adds to the logits is mixed with them, and attention dropout drops the mixed weights.
// Where rules differ between heads, a pair that is hidden in a head gives nothing to the others and
// gets nothing from them.
// The start, the identity plus normal numbers of 0.02, is ours: near standard attention. Weight
// decay acts on both as on other matrices.
// Source: Shazeer et al. 2020, Talking-Heads Attention, arXiv 2003.02436, with as many heads of
// keys and of values as softmaxes. Cost: as standard attention in its explicit form, with O(Lq Lk)
// memory, and 2 H multiply-adds for each weight.
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/plugin.h"

namespace attnlab {

class TalkingHeads final : public DotProductAttention {
 public:
  TalkingHeads(const NoOptions&, const AttentionShape& shape)
      : DotProductAttention(shape, {.normaliser = Normaliser::custom}) {
    const std::int64_t heads = shape.heads / shape.members;
    const auto near_identity = [&] {
      return at::eye(heads).repeat({shape.members, 1}) + at::randn({shape.heads, heads}) * 0.02;
    };
    logit_mix_ = register_parameter("logit_mix", near_identity());
    weight_mix_ = register_parameter("weight_mix", near_identity());
  }

 protected:
  Tensor normalise(const Tensor& logits, const Tensor& visible,
                   AttentionContext& context) const override {
    const Tensor hidden = visible.defined() ? visible.logical_not() : Tensor();
    const auto shown = [&](const Tensor& x) {
      return hidden.defined() ? x.masked_fill(hidden, 0) : x;
    };
    const Tensor talked = mixed(shown(logits), logit_mix_);
    return shown(mixed(DotProductAttention::normalise(talked, visible, context), weight_mix_));
  }

 private:
  /// @param x   [B, H, Lq, Lk]
  /// @param by  [H, H / members]: row h is what head h takes of each head of its member.
  Tensor mixed(const Tensor& x, const Tensor& by) const {
    const std::int64_t members = shape().members, heads = shape().heads / members;
    const Tensor matrices = by.to(x.scalar_type()).view({members, heads, heads});
    return at::matmul(matrices, x.reshape({x.size(0), members, heads, x.size(2) * x.size(3)}))
        .reshape(x.sizes());
  }

  Tensor logit_mix_, weight_mix_;  ///< P and R, [H, H / members]
};

ATTNLAB_PLUGIN(attention, TalkingHeads, NoOptions,
               {.id = "attnlab/talking_heads",
                .version = "1.0.0",
                .summary = "softmax with logits and weights mixed between heads",
                .citation = "Shazeer et al. 2020, Talking-Heads Attention, arXiv 2003.02436",
                .licence = "Apache-2.0"})

}  // namespace attnlab
