// Differential attention: the difference of two softmaxes, in which what both attend to cancels.
//
//   O = (softmax(Q₁ K₁ᵀ / √(D/2)) - λ softmax(Q₂ K₂ᵀ / √(D/2))) V,   Y = (1 - λ₀) RMSNorm(O)
//   λ = exp(a₁ · b₁) - exp(a₂ · b₂) + λ₀,   λ₀ = 0.8 - 0.6 exp(-0.3 l),   l = 0, 1, .. the layer
//
// Q₁, Q₂ (K₁, K₂) are the first and the second half of a head's channels; a and b are learned, D/2
// numbers each, normal with 0.1 at the start, and one λ serves all heads. The norm is one of each
// head, with a factor for each channel that heads share. Against standard attention: weights may be
// negative, and sum to 1 - λ before the norm. Published models have half as many heads, twice as
// wide, as the standard ones beside them; heads are the model's option here.
// A bias on the logits is added to both. The paper drops no weights; dropout here drops those of
// each softmax by itself. A trace has the norms of queries and keys alone: no weights give the
// output with the values, since the norm stands in between, and there are two logits for each pair.
// The second version (2026) is `differential_v2`.
// Source: Ye et al. 2024, Differential Transformer, arXiv 2410.05258, equations 1 to 3, and its
// public code. Cost: twice standard attention's sums of values, and the same logits.
#include <fmt/format.h>

#include <cmath>

#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/source_map.h"
#include "framework/nn/attention/unrecorded_weights.h"
#include "framework/plugin.h"

namespace attnlab {

class Differential final : public DotProductAttention {
 public:
  Differential(const NoOptions&, const AttentionShape& shape)
      : DotProductAttention(shape, {.scale = 1 / std::sqrt(static_cast<double>(half_of(shape)))}),
        half_(half_of(shape)),
        start_(0.8 - 0.6 * std::exp(-0.3 * static_cast<double>(shape.layer))),
        norm_(register_module("norm", std::make_shared<HeadRmsNorm>(shape.values(), shape))) {
    const auto vector = [&](const char* name) {
      return register_parameter(name, at::randn({shape.members * half_}) * 0.1);
    };
    query_1_ = vector("lambda_q1");
    key_1_ = vector("lambda_k1");
    query_2_ = vector("lambda_q2");
    key_2_ = vector("lambda_k2");
  }

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    if (context.trace != nullptr) record_norms(input, context);
    AttentionContext inner = context;
    inner.trace = nullptr;
    const Tensor first = DotProductAttention::attend(half_of(input, 0), inner);
    const Tensor second = DotProductAttention::attend(half_of(input, 1), inner);
    return norm_->forward(first - factors() * second) * (1 - start_);
  }

 private:
  static std::int64_t half_of(const AttentionShape& shape) {
    if (shape.head_dim % 2 == 0) return shape.head_dim / 2;
    throw ConfigError(
        fmt::format("differential attention: it splits a head's channels in halves, and heads have "
                    "{}; give the model heads of an even width, or take another attention",
                    shape.head_dim));
  }

  AttentionInput half_of(const AttentionInput& input, std::int64_t which) const {
    AttentionInput half = input;
    RelativePositions& relative = half.relative;
    for (Tensor* x : {&half.queries, &half.keys, &relative.keys, &relative.content_bias,
                      &relative.position_bias}) {
      if (x->defined()) *x = x->narrow(-1, which * half_, half_);
    }
    return half;
  }

  /// λ of each head's model: [H, 1, 1].
  Tensor factors() const {
    const std::int64_t members = shape().members;
    const auto exponential = [&](const Tensor& a, const Tensor& b) {
      return (a * b).view({members, half_}).sum(-1, /*keepdim=*/true).exp();
    };
    const Tensor each = exponential(query_1_, key_1_) - exponential(query_2_, key_2_) + start_;
    return each.expand({members, shape().heads / members}).reshape({-1, 1, 1});
  }

  std::int64_t half_;
  double start_;                              ///< λ₀
  Tensor query_1_, key_1_, query_2_, key_2_;  ///< a₁, b₁, a₂, b₂: [members * D/2]
  std::shared_ptr<HeadRmsNorm> norm_;
};

ATTNLAB_PLUGIN(attention, Differential, NoOptions,
               {.id = "attnlab/differential",
                .version = "1.0.0",
                .summary = "difference of two softmaxes, normalised: what both attend to cancels",
                .citation = "Ye et al. 2024, Differential Transformer, arXiv 2410.05258",
                .licence = "Apache-2.0"})

}  // namespace attnlab
