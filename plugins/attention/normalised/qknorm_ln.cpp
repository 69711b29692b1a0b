// QKNorm-LN: layer normalisation of queries and keys.
//
//   Y = softmax(LN_q(Q) LN_k(K)ᵀ / √D) V,   LN(x) = w ⊙ (x - mean x) / √(var x + eps) + b over D
//
// Against standard attention: queries and keys are centred and of norm √D before the learned weight
// and bias, which heads share; no norm has a say. QUEST's table A5 names this variant; it is the
// form of QKNorm-DS in the work that the paper cites for that.
// Source: Dehghani et al., Scaling vision transformers to 22 billion parameters, ICML 2023.
// Cost: as standard attention, and a pass over queries and keys.
#include "framework/nn/attention/attention_maps.h"
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/plugin.h"

namespace attnlab {

struct QKNormLnOptions {
  double eps = 1e-6;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("eps", eps, range(0, 1), "added to the variance; 0: 1e-6");
  }
};

class QKNormLn final : public DotProductAttention {
 public:
  QKNormLn(const QKNormLnOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape),
        query_(register_module("query", map_of(options, shape))),
        key_(register_module("key", map_of(options, shape))) {}

 protected:
  Tensor map_queries(const Tensor& queries, AttentionContext&) const override {
    return query_->forward(queries);
  }
  Tensor map_keys(const Tensor& keys, AttentionContext&) const override {
    return key_->forward(keys);
  }

 private:
  static std::shared_ptr<VectorMap> map_of(const QKNormLnOptions& options,
                                           const AttentionShape& shape) {
    MapOptions map;
    map.map = "layer_norm";
    map.eps = options.eps;
    return std::make_shared<VectorMap>(map, shape);
  }

  std::shared_ptr<VectorMap> query_, key_;
};

ATTNLAB_PLUGIN(attention, QKNormLn, QKNormLnOptions,
               {.id = "attnlab/qknorm_ln",
                .version = "1.0.0",
                .summary = "softmax(LayerNorm(Q) LayerNorm(K)ᵀ / √D) V",
                .citation = "Dehghani et al., Scaling vision transformers to 22 billion "
                            "parameters, ICML 2023",
                .licence = "Apache-2.0"})

}  // namespace attnlab
