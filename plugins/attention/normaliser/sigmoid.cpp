// Sigmoid attention: every weight is its own, rows do not sum to one.
//
//   Y = σ(Q Kᵀ / s + b) V,   s = √D,   b = -log n, where n is the number of keys a query may see
//
// Against standard attention: σ takes the place of softmax, so keys do not compete; -log n keeps a
// row's sum near one at the start. Two choices differ between the sources, and both are options:
// the bias (-log n in the original work; a constant 0 in the robustness paper's equation and code)
// and s (√D in both equations; √(H D) in the robustness paper's code). Defaults: the original work.
// Public code takes the length of the whole sequence for n. Here hidden keys and padding do not
// count, so that padding equals absence and a causal prefix equals the prefix alone.
// Source: Ramapuram et al. 2024, "Theory, analysis, and best practices for sigmoid self-attention";
// "Your attention matters", 2025, equation 5. Cost: as standard attention; on the CPU the same
// kernel.
#include "framework/nn/attention/attention_maps.h"
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/normalisers.h"
#include "framework/plugin.h"

namespace attnlab {

struct SigmoidAttentionOptions {
  std::string scale_by = "head_dim";
  SigmoidOptions sigmoid;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("scale_by", scale_by, one_of("head_dim", "model_dim"),
      "logits are divided by sqrt(D) or by sqrt(H D)");
    sigmoid.describe(v);
  }
};

class SigmoidAttention final : public DotProductAttention {
 public:
  SigmoidAttention(const SigmoidAttentionOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape,
                            {.scale = scale_of(options, shape), .normaliser = Normaliser::rule}),
        sigmoid_(options.sigmoid) {}

 protected:
  RowWeights row_weights(const AttentionInput& input, AttentionContext&) const override {
    return sigmoid_weights(input, sigmoid_);
  }

 private:
  static double scale_of(const SigmoidAttentionOptions& options, const AttentionShape& shape) {
    ScaleOptions scale;
    scale.by = options.scale_by;
    return constant_scale(scale, shape);
  }

  SigmoidOptions sigmoid_;
};

ATTNLAB_PLUGIN(attention, SigmoidAttention, SigmoidAttentionOptions,
               {.id = "attnlab/sigmoid",
                .version = "1.0.0",
                .summary = "σ(Q Kᵀ / √D - log n) V: keys do not compete",
                .citation = "Ramapuram et al. 2024, Theory, analysis, and best practices for "
                            "sigmoid self-attention; Your attention matters, 2025",
                .licence = "Apache-2.0"})

}  // namespace attnlab
