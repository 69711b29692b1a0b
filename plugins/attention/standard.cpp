// Standard attention: scaled dot products.
//
//   Y = softmax(Q Kᵀ / √D) V
//
// The baseline of every comparison.
// Source: Vaswani et al., Attention Is All You Need, NeurIPS 2017, equation 1.
// Cost: O(Lq Lk (D + Dv)) time; O(Lq Lk) memory while gradients flow.
#include "framework/nn/dot_product_attention.h"
#include "framework/plugin.h"

namespace attnlab {

class Standard final : public DotProductAttention {
 public:
  Standard(const NoOptions&, const AttentionShape& shape) : DotProductAttention(shape) {}
};

ATTNLAB_PLUGIN(attention, Standard, NoOptions,
               {.id = "attnlab/standard",
                .version = "1.0.0",
                .summary = "softmax(Q Kᵀ / √D) V, the baseline",
                .citation = "Vaswani et al., Attention Is All You Need, NeurIPS 2017",
                .licence = "Apache-2.0"})

}  // namespace attnlab
