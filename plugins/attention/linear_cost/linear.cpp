// Linear attention: a feature map in place of the exponential, so that sums over keys come first.
//
//   y_i = φ(q_i) (sum_j φ(k_j) v_jᵀ) / (φ(q_i) · sum_j φ(k_j) + eps),   φ(x) = elu(x) + 1
//
// Against standard attention: the weights φ(q_i)·φ(k_j) / sum are a kernel of rank D, and no n x n
// matrix is made. Differences between the sources: φ on queries and keys (the original work, and
// the robustness paper's code; the default) or on queries alone (that paper's equation 6:
// `feature_map: queries`); eps (in equation 6; the public code has none: 0, where a row whose
// weights sum to 0 gives zeros instead of NaN). Keys without φ may have weights of both signs.
// Weights exist under a trace and under attention dropout alone; then the quadratic form is taken.
// Source: Katharopoulos et al. 2020; "Your attention matters", 2025, equation 6.
// Cost: O((Lq + Lk) D Dv), causal or not (framework/nn/attention/linear_attention.h).
#include "framework/nn/attention/feature_attention.h"
#include "framework/nn/attention/linear_attention.h"
#include "framework/plugin.h"

namespace attnlab {

struct LinearAttentionOptions {
  std::string feature_map = "both";
  double eps = 1e-6;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("feature_map", feature_map, one_of("both", "queries"),
      "elu + 1 on queries and keys (the code), or only on queries (the paper's equation)");
    v("eps", eps, range(0, 1), "added to the sum of a query's weights");
  }
};

class LinearAttention final : public FeatureAttention {
 public:
  LinearAttention(const LinearAttentionOptions& options, const AttentionShape& shape)
      : FeatureAttention(shape, options.eps), maps_keys_(options.feature_map == "both") {}

 protected:
  Tensor map_queries(const Tensor& queries, AttentionContext&) const override {
    return elu_plus_one(queries);
  }
  Tensor map_keys(const Tensor& keys, AttentionContext&) const override {
    return maps_keys_ ? elu_plus_one(keys) : keys;
  }

 private:
  bool maps_keys_;
};

ATTNLAB_PLUGIN(attention, LinearAttention, LinearAttentionOptions,
               {.id = "attnlab/linear",
                .version = "1.0.0",
                .summary = "φ(Q) (φ(K)ᵀ V) over its row sums, φ = elu + 1, at linear cost",
                .citation = "Katharopoulos et al., Transformers are RNNs, ICML 2020; Your "
                            "attention matters, 2025",
                .licence = "Apache-2.0"})

}  // namespace attnlab
