// Standard attention: scaled dot products.
//
//   Y = softmax(Q Kᵀ / √D) V
//
// The baseline of every comparison. With `scale_by: model_dim` the logits are divided by √(H D),
// the square root of all heads' channels: "Your Attention Matters" prints √d, and its public code
// does that.
// Source: Vaswani et al., Attention Is All You Need, NeurIPS 2017, equation 1.
// Cost: O(Lq Lk (D + Dv)) time; O(Lq Lk) memory while gradients flow.
#include "framework/nn/attention/attention_maps.h"
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/plugin.h"

namespace attnlab {

struct StandardOptions {
  std::string scale_by = "head_dim";

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("scale_by", scale_by, one_of("head_dim", "model_dim"),
      "logits are divided by the square root of D, or of H D");
  }
};

class Standard final : public DotProductAttention {
 public:
  Standard(const StandardOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape, {.scale = scale_of(options, shape)}) {}

 private:
  static double scale_of(const StandardOptions& options, const AttentionShape& shape) {
    ScaleOptions scale;
    scale.by = options.scale_by;
    return constant_scale(scale, shape);
  }
};

ATTNLAB_PLUGIN(attention, Standard, StandardOptions,
               {.id = "attnlab/standard",
                .version = "1.1.0",
                .summary = "softmax(Q Kᵀ / √D) V, the baseline",
                .citation = "Vaswani et al., Attention Is All You Need, NeurIPS 2017",
                .licence = "Apache-2.0"})

}  // namespace attnlab
