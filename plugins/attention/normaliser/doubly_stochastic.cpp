// Doubly stochastic attention: rows and columns of the weights both have fixed sums.
//
//   Y = Sinkhorn(Q Kᵀ / √D) V
//
// Sinkhorn's half-steps (framework/nn/attention/normalisers.h) scale rows and columns of exp(logits
// / eps) in turn; softmax is the first of them. Against standard attention: no key can draw more
// than its share, a column's sum. Differences between paper and public code: rows sum to one
// (paper, the default) or to 1/n (code: `total: inverse_n`). The paper's tuned settings: max_iter
// 20 and eps 2 for CIFAR-10, 8 and 1.4 for CIFAR-100 and Imagenette; the code's defaults, 3 and 1,
// are ours. Rows and columns couple all queries and keys, so there is no causal form: a later query
// would change what an earlier one gives. Padding takes no part in either. Source: Sander et al.
// 2022, Sinkformers; "Your attention matters", 2025, equations 7 to 10. Cost: as standard
// attention, and half a pass over the weights for each half-step.
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/normalisers.h"
#include "framework/plugin.h"

namespace attnlab {

class DoublyStochastic final : public DotProductAttention {
 public:
  static constexpr AttentionTraits kTraits = [] {
    AttentionTraits traits = AttentionTraits::all_quadratic();
    traits.causal = false;
    return traits;
  }();

  DoublyStochastic(const SinkhornOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape, {.normaliser = Normaliser::custom}, kTraits),
        options_(options) {}

  /// The columns' sums run over all queries.
  bool couples_queries() const override { return true; }

 protected:
  Tensor normalise(const Tensor& logits, const Tensor& visible, AttentionContext&) const override {
    return sinkhorn_weights(logits, visible, options_);
  }

 private:
  SinkhornOptions options_;
};

ATTNLAB_PLUGIN(attention, DoublyStochastic, SinkhornOptions,
               {.id = "attnlab/doubly_stochastic",
                .version = "1.0.0",
                .summary = "Sinkhorn(Q Kᵀ / √D) V: rows and columns of the weights sum to one",
                .citation = "Sander et al., Sinkformers, AISTATS 2022; Your attention matters, "
                            "2025",
                .licence = "Apache-2.0"})

}  // namespace attnlab
