// Based: linear attention with the exponential's Taylor series up to the second order.
//
//   y_i = φ(q̂_i) (sum_j φ(k̂_j) v_jᵀ) / (φ(q̂_i) · sum_j φ(k̂_j) + 1e-12)
//   φ(x) = [1, x / d^¼, vec(x xᵀ) / √(2 d)],   q̂ = W_q q,   k̂ = W_k k   of d channels
//   that is, weights φ(q̂) · φ(k̂) = 1 + s + s² / 2 over their sum,   s = q̂ · k̂ / √d
//
// Against linear attention: weights before division are never below 1/2, near those of softmax
// where s is small, and rise as s² where it is large: keys can be told apart. The paper projects
// queries and keys to d channels (`feature_dim`) at once; here the model gives D channels, and each
// head maps them on, which gives the same functions where d <= D. W starts uniform in ±1/√D, as
// PyTorch's linear maps do. `feature_dim: 0` takes the model's channels as they are. Where |s| is
// large, sums in float32 lose digits, since its powers cancel.
// The paper's model has layers of softmax attention with a sliding window between these; that is
// the composition's matter (attention.layers).
// Source: Arora et al. 2024, Simple linear attention language models balance the recall-throughput
// tradeoff, arXiv 2402.18668, and its public code.
// Cost: O((Lq + Lk) F Dv) with F = 1 + d + d² (273 for 16), causal or not; the memory of earlier
// tokens is [B, H, F, Dv + 1].
#include <cmath>

#include "framework/nn/attention/feature_attention.h"
#include "framework/nn/kernels/precision.h"
#include "framework/plugin.h"

namespace attnlab {

struct BasedOptions {
  std::int64_t feature_dim = 16;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("feature_dim", feature_dim, range(0, 256),
      "channels that a head's queries and keys are mapped to; 0: no map");
  }
};

class Based final : public FeatureAttention {
 public:
  Based(const BasedOptions& options, const AttentionShape& shape) : FeatureAttention(shape, 1e-12) {
    if (options.feature_dim == 0) return;
    const double bound = 1 / std::sqrt(static_cast<double>(shape.head_dim));
    const auto map = [&](const char* name) {
      const Tensor start = at::empty({shape.heads * options.feature_dim, shape.head_dim});
      return register_parameter(name, start.uniform_(-bound, bound));
    };
    query_map_ = map("query_map");
    key_map_ = map("key_map");
  }

 protected:
  Tensor map_queries(const Tensor& queries, AttentionContext&) const override {
    return taylor(mapped(queries, query_map_));
  }
  Tensor map_keys(const Tensor& keys, AttentionContext&) const override {
    return taylor(mapped(keys, key_map_));
  }

 private:
  /// Each head's own map. @param x  [B, H, L, D]. @returns [B, H, L, d].
  Tensor mapped(const Tensor& x, const Tensor& map) const {
    if (!map.defined()) return x;
    return product(x, map.view({shape().heads, -1, x.size(3)}).transpose(1, 2));
  }

  /// φ: [..., d] to [..., 1 + d + d²].
  static Tensor taylor(const Tensor& x) {
    const double root = std::sqrt(static_cast<double>(x.size(-1)));
    const Tensor first = x / std::sqrt(root);
    const Tensor second = (first.unsqueeze(-1) * first.unsqueeze(-2)).flatten(-2) * std::sqrt(0.5);
    return at::cat({at::ones_like(x.narrow(-1, 0, 1)), first, second}, -1);
  }

  Tensor query_map_, key_map_;  ///< [H d, D]; undefined: none
};

ATTNLAB_PLUGIN(attention, Based, BasedOptions,
               {.id = "attnlab/based",
                .version = "1.0.0",
                .summary = "weights 1 + s + s² / 2 over their sum, at linear cost",
                .citation = "Arora et al. 2024, Simple linear attention language models balance "
                            "the recall-throughput tradeoff, arXiv 2402.18668",
                .licence = "Apache-2.0"})

}  // namespace attnlab
