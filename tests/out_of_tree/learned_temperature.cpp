// Learned temperature: standard attention whose every head learns how sharp it is.
//
//   Y_h = softmax(τ_h Q_h K_hᵀ / √D) V_h,   τ_h = exp(t_h),  t_h learned, from log(initial)
//
// Against standard attention: one more parameter a head. A sample of a plugin that another lab
// keeps in a repository of its own. Cost: as standard attention, and one pass over the queries.
#include <cmath>

#include "framework/nn/attention/dot_product_attention.h"
#include "framework/plugin.h"

namespace acme {

using attnlab::AttentionContext;
using attnlab::AttentionShape;
using attnlab::Tensor;

struct LearnedTemperatureOptions {
  double initial = 1.0;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("initial", initial, attnlab::range(1e-3, 1e3), "every head's temperature at the start");
  }
};

class LearnedTemperature final : public attnlab::DotProductAttention {
 public:
  LearnedTemperature(const LearnedTemperatureOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape) {
    log_temperature_ = register_parameter(
        "log_temperature", at::full({shape.heads}, std::log(options.initial), at::kFloat));
  }

 protected:
  /// [..., H, L, D] to the same.
  Tensor map_queries(const Tensor& queries, AttentionContext&) const override {
    return queries * log_temperature_.exp().view({-1, 1, 1}).to(queries.scalar_type());
  }

 private:
  Tensor log_temperature_;  ///< t, [H]
};

ATTNLAB_PLUGIN(attention, LearnedTemperature, LearnedTemperatureOptions,
               {.id = "acme/learned_temperature",
                .version = "0.1.0",
                .summary = "softmax(τ Q Kᵀ / √D) V with a learned τ for each head",
                .citation = "sample plugin",
                .licence = "Apache-2.0"})

}  // namespace acme
