// Rotary attention (RoPE): queries and keys are turned by where they stand.
//
//   Y = softmax((R(p_i) q_i) · (R(p_j) k_j) / √D) V,   R as in framework/nn/modules/rotary.h
//
// Against standard attention: only the maps of queries and keys differ, so that its kernels serve.
// Relative positions of the model's own (Transformer-XL) are not taken: their keys stand at no
// place, so that they cannot be turned as other keys are. Other mechanisms are turned by
// `attention.positions: rotary`.
// Source: Su et al. 2021, RoFormer, arXiv:2104.09864. Cost: as standard attention, and O((Lq + Lk)
// D) for the turns.
#include "framework/nn/modules/rotary.h"
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/plugin.h"

namespace attnlab {

struct RotaryOptions {
  double base = 10000;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("base", base, range(1, 1e12),
      "pair m of a coordinate's n channel pairs is rotated by the position times base^(-m/n)");
  }
};

class Rotary final : public DotProductAttention {
 public:
  static constexpr AttentionTraits kTraits = [] {
    AttentionTraits traits = AttentionTraits::all_quadratic();
    traits.relative_positions = false;
    traits.places = true;
    return traits;
  }();

  Rotary(const RotaryOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape, {}, kTraits), base_(options.base) {
    rotary_pairs(shape.head_dim, 1);
  }

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    return DotProductAttention::attend(turned(input, base_), context);
  }

 private:
  double base_;
};

ATTNLAB_PLUGIN(attention, Rotary, RotaryOptions,
               {.id = "attnlab/rotary",
                .version = "1.0.0",
                .summary = "softmax(R Q (R K)ᵀ / √D) V, R rotates channel pairs by position",
                .citation = "Su et al. 2021, RoFormer, arXiv:2104.09864; Heo et al. 2024, Rotary "
                            "Position Embedding for Vision Transformer, arXiv:2403.13298",
                .licence = "Apache-2.0"})

}  // namespace attnlab
