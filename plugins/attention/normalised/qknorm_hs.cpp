// QKNorm-HS: unit queries and keys, with one learned scale for each head.
//
//   Y = softmax(C_h Q̄ K̄ᵀ) V,   C ∈ ℝ^H,   q̄_i = q_i / max(|q_i|₂, eps),   k̄_j likewise
//
// Against standard attention: neither norm has a say; a learned number, the same for all tokens of
// a head, takes the place of 1/√D. The paper gives neither form nor initial value: the default is
// Swin Transformer V2's public code, which learns log C from log 10 on and bounds C by 100.
// Source: QUEST, ICLR 2026, table 1; Liu et al., Swin Transformer V2, CVPR 2022.
// Cost: as QUEST, and a pass over queries.
#include "framework/nn/attention/attention_maps.h"
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/plugin.h"

namespace attnlab {

struct QKNormHsOptions {
  double eps = 1e-12;
  std::string parameter = "log";
  double init = 10;
  double max = 100;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("eps", eps, range(0, 1), "floor of a norm");
    v("parameter", parameter, one_of("log", "plain"), "learn log C, or C itself");
    v("init", init, at_least(0), "initial C");
    v("max", max, at_least(0), "upper bound of C");
  }
};

class QKNormHs final : public DotProductAttention {
 public:
  QKNormHs(const QKNormHsOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape, {.scale = 1.0, .unit_keys = options.eps}),
        eps_(options.eps),
        scale_(register_module("scale", scale_of(options, shape))) {}

 protected:
  Tensor map_queries(const Tensor& queries, AttentionContext&) const override {
    return scale_->forward(unit(queries, eps_));
  }

 private:
  static std::shared_ptr<LearnedScale> scale_of(const QKNormHsOptions& options,
                                                const AttentionShape& shape) {
    ScaleOptions scale;
    scale.kind = "learned";
    scale.parameter = options.parameter;
    scale.init = options.init;
    scale.max = options.max;
    return std::make_shared<LearnedScale>(scale, shape);
  }

  double eps_;
  std::shared_ptr<LearnedScale> scale_;
};

ATTNLAB_PLUGIN(attention, QKNormHs, QKNormHsOptions,
               {.id = "attnlab/qknorm_hs",
                .version = "1.0.0",
                .summary = "softmax(C_h Q̄ K̄ᵀ) V, one learned scale per head",
                .citation = "QUEST: query-modulated spherical attention, ICLR 2026; Liu et al., "
                            "Swin Transformer V2, CVPR 2022",
                .licence = "Apache-2.0"})

}  // namespace attnlab
