// LASER attention: values are averaged as exponentials.
//
//   Y = log(A exp(V)),   A = softmax(Q Kᵀ / √D)
//
// Against standard attention: a smooth maximum of values, at least their mean; the gradient by a
// logit is not bounded by its weight, which is often tiny.
// Computed as the paper does, m + log(A exp(V - m)) with m_c the largest v_jc of all keys, which
// cancels and is a constant to gradients. So under a causal rule m knows later tokens, and in a
// ragged batch other sequences, but results depend on them by rounding alone, as long as nothing
// underflows: a value counts as at least m - 69 in float32 (m - 667 in float64), and takes no
// gradient below that. Padding and keys that a mask hides from all queries have no part in m. A
// query that sees nothing, or to which dropout leaves nothing, gives zeros.
// The kernels of softmax serve. Attention dropout drops weights before the logarithm, as the
// formula says. A trace records no weights, since they do not give the output with the values; its
// logits and entropy are softmax's.
// Source: Duvvuri and Dhillon 2024, LASER: Attention with Exponential Transformation, arXiv
// 2411.03493, algorithm 1. Cost: as standard attention, and a pass over values and output.
#include <cmath>

#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/unrecorded_weights.h"
#include "framework/plugin.h"

namespace attnlab {

class Laser final : public DotProductAttention {
 public:
  Laser(const NoOptions&, const AttentionShape& shape) : DotProductAttention(shape) {}

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    const UnrecordedWeights unrecorded(context.trace);
    if (input.key_count() == 0) return DotProductAttention::attend(input, context);
    const bool is_double = input.values.scalar_type() == at::kDouble;
    const Tensor top = largest_values(input);
    AttentionInput raised = input;
    // Hidden values may be larger than m.
    raised.values = (input.values - top).clamp(is_double ? -667 : -69, 0).exp();
    const Tensor sums = DotProductAttention::attend(raised, context);
    const Tensor logarithms = sums.clamp_min(is_double ? 1e-290 : 1e-30).log();
    return (logarithms + top).masked_fill(sums.detach().eq(0), 0);
  }

 private:
  /// m, without a graph: [B, H, 1, Dv]; 0 where all keys are hidden.
  static Tensor largest_values(const AttentionInput& input) {
    const Tensor values = input.values.detach(), &pairs = input.visible.pairs;
    Visibility keys;  // which of them any query may see, but for order
    keys.key_valid = input.visible.key_valid;
    if (pairs.defined()) keys.pairs = pairs.dim() < 2 ? pairs : pairs.any(-2, /*keepdim=*/true);
    const Tensor seen = visible_pairs(keys, 1, input.key_count(), values.device());
    if (!seen.defined()) return values.amax(2, /*keepdim=*/true);
    const Tensor hidden = seen.logical_not()
                              .expand({input.batch(), input.heads(), 1, input.key_count()})
                              .transpose(2, 3);
    const Tensor top = values.masked_fill(hidden, -INFINITY).amax(2, /*keepdim=*/true);
    return top.masked_fill(top.isneginf(), 0);
  }
};

ATTNLAB_PLUGIN(attention, Laser, NoOptions,
               {.id = "attnlab/laser",
                .version = "1.0.0",
                .summary = "log(softmax(Q Kᵀ / √D) exp(V))",
                .citation = "Duvvuri and Dhillon 2024, LASER: Attention with Exponential "
                            "Transformation, arXiv 2411.03493",
                .licence = "Apache-2.0"})

}  // namespace attnlab
