// Elliptical attention: hyper-ellipsoids instead of spheres around the queries.
//
//   Y = softmax(Q M Kᵀ / √D) V,   M = diag(r / max r),
//   r_c = mean over tokens |v^l_jc − v^(l−1)_jc|
//
// Against standard attention: each coordinate weighs as much as the values moved along it since the
// previous layer. M is estimated for each example and head, not learned, and takes no gradient; it
// is 1 in the first layer. How tokens are averaged, and where the public code looks into the
// future: framework/nn/attention/elliptical.h.
// Paper and vision code keep 1/√D; the language code drops it where M is used: `scale_with_metric`.
// Source: Nielsen et al., Elliptical Attention, NeurIPS 2024.
// Cost: as standard attention, one pass over the values, and one more product where queries see
// different keys.
#include <cmath>

#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/elliptical.h"
#include "framework/plugin.h"

namespace attnlab {

struct EllipticalAttentionOptions {
  EllipticalOptions metric;
  bool scale_with_metric = true;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    metric.describe(v);
    v("scale_with_metric", scale_with_metric,
      "keep 1/sqrt(D) where M is used (paper, vision code); false: only in the first layer "
      "(language code)");
  }
};

class Elliptical final : public DotProductAttention {
 public:
  Elliptical(const EllipticalAttentionOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape),
        metric_(options.metric, shape),
        // Times the base class's 1/sqrt(D), this is 1.
        factor_(options.scale_with_metric ? 1 : std::sqrt(static_cast<double>(shape.head_dim))) {}

 protected:
  Tensor metric(const AttentionInput& input, AttentionContext& context) const override {
    const Tensor diagonal = metric_(input, context, is_training());
    return diagonal.defined() && factor_ != 1 ? diagonal * factor_ : diagonal;
  }

 private:
  EllipticalMetric metric_;
  double factor_;
};

ATTNLAB_PLUGIN(attention, Elliptical, EllipticalAttentionOptions,
               {.id = "attnlab/elliptical",
                .version = "1.0.0",
                .summary = "softmax(Q M Kᵀ/√D) V, M from the change of the values between layers",
                .citation = "Nielsen et al., Elliptical Attention, NeurIPS 2024",
                .licence = "Apache-2.0",
                .needs = {"consecutive"}})

}  // namespace attnlab
