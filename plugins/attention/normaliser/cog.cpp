// Cog attention: weights with the sign of their logits.
//
//   Y = (sign(L) ⊙ softmax(|L|)) V,   L = Q Kᵀ / √D
//
// Against standard attention: a value may be subtracted, so that one head can copy some tokens and
// delete others; the weights' absolute values sum to one. A logit of 0 (within 1e-5, so that
// rounding draws no sign) has weight 0, and a weight jumps where its logit changes sign: gradients
// are those between jumps.
// The paper keeps softmax in some of the first and last layers, for stable
// training; here every layer that names Cog attention has it.
// Source: Lv et al. 2024, More
// Expressive Attention with Negative Weights, arXiv 2411.07176, and its public code. Cost: as
// standard attention.
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/plugin.h"

namespace attnlab {

class Cog final : public DotProductAttention {
 public:
  Cog(const NoOptions&, const AttentionShape& shape)
      : DotProductAttention(shape, {.terms = true}) {}

 protected:
  LogitTerms terms(const AttentionInput&, AttentionContext&) const override {
    return {.signs = true};
  }
};

ATTNLAB_PLUGIN(attention, Cog, NoOptions,
               {.id = "attnlab/cog",
                .version = "1.0.0",
                .summary = "sign(L) softmax(|L|) V, L = Q Kᵀ / √D: weights may be negative",
                .citation = "Lv et al. 2024, More Expressive Attention with Negative Weights, "
                            "arXiv 2411.07176",
                .licence = "Apache-2.0"})

}  // namespace attnlab
