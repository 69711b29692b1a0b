// Cosine attention: cosine similarities over a learned power of the number of keys.
//
//   y_i = n^-σ(m_h) sum_j (q̄_i · k̄_j) v_j = n^-σ(m_h) q̄_i (sum_j k̄_j v_jᵀ)
//   q̄_i = q_i / max(|q_i|₂, eps),   k̄_j likewise
//
// Against standard attention: no softmax, weights of both signs that lie in [-1, 1] / n^σ(m), and
// no n x n matrix. n is the number of keys that a query may see (the public code takes the
// sequence's length), m one number for each head, 0.5 at the start.
// Weights exist under a trace and under attention dropout alone; then the quadratic form is taken.
// The robustness paper's code drops weights too; its experiments use no dropout.
// Source: Mongaras et al. 2024, Cottention; "Your attention matters", 2025, equation 11.
// Cost: O((Lq + Lk) D Dv), causal or not (framework/nn/attention/linear_attention.h).
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/attention/linear_attention.h"
#include "framework/nn/attention/normalisers.h"
#include "framework/plugin.h"

namespace attnlab {

struct CosineOptions {
  PowerOptions power;
  double eps = 1e-12;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    power.describe(v);
    v("eps", eps, range(0, 1), "floor of a query's and of a key's norm");
  }
};

class CosineAttention final : public DotProductAttention {
 public:
  static constexpr AttentionTraits kTraits{.causal = true,
                                           .padding = true,
                                           .ragged = true,
                                           .different_lengths = true,
                                           .different_source = true,
                                           .second_order = true,
                                           .linear_cost = true};

  CosineAttention(const CosineOptions& options, const AttentionShape& shape)
      : DotProductAttention(shape, {.scale = 1.0, .normaliser = Normaliser::custom}, kTraits),
        eps_(options.eps),
        power_(register_module("power",
                               std::make_shared<PowerNormaliser>(options.power, shape.heads))) {}

 protected:
  Tensor map_queries(const Tensor& queries, AttentionContext&) const override {
    return unit(queries, eps_);
  }
  Tensor map_keys(const Tensor& keys, AttentionContext&) const override { return unit(keys, eps_); }

  Tensor normalise(const Tensor& logits, const Tensor& visible, AttentionContext&) const override {
    return power_->forward(logits, visible);
  }

  Tensor own_kernel(const Tensor& queries, const Tensor& keys, const AttentionInput& input,
                    AttentionContext&) const override {
    const Tensor sums = linear_sums(queries, keys, input.values, input.visible);
    const Tensor counts =
        visible_counts(input.visible, queries.size(2), keys.size(2), keys.device());
    return (sums * power_->factor(counts.to(sums.scalar_type()))).to(input.values.scalar_type());
  }

 private:
  double eps_;
  std::shared_ptr<PowerNormaliser> power_;
};

ATTNLAB_PLUGIN(attention, CosineAttention, CosineOptions,
               {.id = "attnlab/cosine",
                .version = "1.0.0",
                .summary = "cos(Q, K) / n^σ(m) V, at linear cost",
                .citation = "Mongaras et al. 2024, Cottention: linear transformers with cosine "
                            "attention; Your attention matters, 2025",
                .licence = "Apache-2.0"})

}  // namespace attnlab
