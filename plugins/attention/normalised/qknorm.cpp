// QKNorm: unit queries and keys, with learned scales for each head and channel, or each channel.
//
//   Y = softmax((C_q ⊙ Q̄)(C_k ⊙ K̄)ᵀ) V,   C_q, C_k ∈ ℝ^(H × D), or ℝ^D in QKNorm-DS
//   q̄_i = q_i / max(|q_i|₂, eps),   k̄_j likewise
//
// Against standard attention: neither norm has a say, and the factor 1/√D is gone; all tokens of a
// head share one sharpness, which is learned. The paper gives no initial value: D^(1/4) each makes
// the logits √D times the cosine at the start, as LayerNorm and 1/√D do.
// `scales: channel`, which heads share, is QKNorm-DS (configs/attention/qknorm_ds.yaml). The work
// that the paper cites for it has LayerNorm where the paper prints the L2 norm: `qknorm_ln`.
// Source: QUEST, ICLR 2026, section 2 and table 1. Cost: as standard attention, and a pass over
// queries and keys.
#include "framework/nn/attention/attention_maps.h"
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/plugin.h"

namespace attnlab {

struct QKNormOptions {
  double eps = 1e-12;
  double init = 0;
  std::string scales = "head_channel";

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("eps", eps, range(0, 1), "floor of a norm; 0: 1e-12");
    v("init", init, at_least(0), "initial value of all scales; 0: D^(1/4)");
    v("scales", scales, one_of("head_channel", "channel"),
      "one per head and channel, or one per channel, shared by all heads");
  }
};

class QKNorm final : public DotProductAttention {
 public:
  QKNorm(const QKNormOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape, {.scale = 1.0}),
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
  static std::shared_ptr<VectorMap> map_of(const QKNormOptions& options,
                                           const AttentionShape& shape) {
    const MapOptions map{
        .map = "sphere", .eps = options.eps, .scales = options.scales, .init = options.init};
    return std::make_shared<VectorMap>(map, shape);
  }

  std::shared_ptr<VectorMap> query_, key_;
};

ATTNLAB_PLUGIN(attention, QKNorm, QKNormOptions,
               {.id = "attnlab/qknorm",
                .version = "1.1.0",
                .summary = "softmax((C_q ⊙ Q̄)(C_k ⊙ K̄)ᵀ) V, scales C per head and channel",
                .citation = "QUEST: query-modulated spherical attention, ICLR 2026",
                .licence = "Apache-2.0"})

}  // namespace attnlab
