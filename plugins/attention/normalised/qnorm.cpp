// QNorm: unit queries.
//
//   Y = softmax(Q̄ Kᵀ) V,   q̄_i = q_i / max(|q_i|₂, eps)
//
// Against standard attention: queries have unit length and the factor 1/√D is gone. Keys are free,
// so a key can still win by its norm; against QUEST the other side is normalised.
// Source: QUEST, ICLR 2026, table 1 (no scale is printed there). Cost: as standard attention, and
// one pass over the queries.
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/plugin.h"

namespace attnlab {

struct QNormOptions {
  double eps = 1e-12;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("eps", eps, range(0, 1), "floor of a query's norm");
  }
};

class QNorm final : public DotProductAttention {
 public:
  QNorm(const QNormOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape, {.scale = 1.0}), eps_(options.eps) {}

 protected:
  Tensor map_queries(const Tensor& queries, AttentionContext&) const override {
    return unit(queries, eps_);
  }

 private:
  double eps_;
};

ATTNLAB_PLUGIN(attention, QNorm, QNormOptions,
               {.id = "attnlab/qnorm",
                .version = "1.0.0",
                .summary = "softmax(Q̄ Kᵀ) V with queries of unit length",
                .citation = "QUEST: query-modulated spherical attention, ICLR 2026",
                .licence = "Apache-2.0"})

}  // namespace attnlab
