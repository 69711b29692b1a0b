// Elliptical-QUEST: QUEST's unit keys under Elliptical attention's metric.
//
//   Y = softmax(Q M K̄ᵀ) V,   k̄_j = k_j / max(|k_j|₂, eps),   M = diag(r / max r),
//   r_c = mean over tokens |v^l_jc − v^(l−1)_jc|
//
// The paper writes S Q̄ M K̄ᵀ with S = diag(|q_i|₂), which is the same. Against QUEST: each
// coordinate weighs as much as the values moved along it since the previous layer (1 in the first
// layer). Against Elliptical attention: unit keys, and no 1/√D.
// Source: QUEST, ICLR 2026, table 3 and the appendix on Elliptical-QUEST; M as in Nielsen et al.,
// NeurIPS 2024, see framework/nn/attention/elliptical.h. Cost: as Elliptical attention, and one
// pass over the keys.
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/elliptical.h"
#include "framework/plugin.h"

namespace attnlab {

struct EllipticalQuestOptions {
  EllipticalOptions metric;
  double eps = 1e-12;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    metric.describe(v);
    v("eps", eps, range(0, 1), "floor of a key's norm");
  }
};

class EllipticalQuest final : public DotProductAttention {
 public:
  EllipticalQuest(const EllipticalQuestOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape, {.scale = 1.0, .unit_keys = options.eps}),
        metric_(options.metric, shape) {}

 protected:
  Tensor metric(const AttentionInput& input, AttentionContext& context) const override {
    return metric_(input, context, is_training());
  }

 private:
  EllipticalMetric metric_;
};

ATTNLAB_PLUGIN(attention, EllipticalQuest, EllipticalQuestOptions,
               {.id = "attnlab/elliptical_quest",
                .version = "1.0.0",
                .summary = "softmax(Q M K̄ᵀ) V: unit keys, M from the values' change between layers",
                .citation = "QUEST: query-modulated spherical attention, ICLR 2026",
                .licence = "Apache-2.0",
                .needs = {"consecutive"}})

}  // namespace attnlab
