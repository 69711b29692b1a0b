// Attention whose weights are products of features over their sum, at linear cost: a base class.
//
//   y_i = φ(q_i) (sum_j φ(k_j) v_jᵀ) / (φ(q_i) · sum_j φ(k_j) + eps)
//
// `map_queries` and `map_keys` give the features. Weights exist under a trace and under attention
// dropout alone; then the quadratic form is taken. What it remembers of earlier tokens is
// sum_j φ(k_j) [v_j, 1]ᵀ, however many there were.
// Source: Katharopoulos et al. 2020, Transformers are RNNs. Cost: O((Lq + Lk) F Dv), causal or not,
// F the number of features (framework/nn/attention/linear_attention.h).
#pragma once

#include "framework/nn/attention/dot_product_attention.h"

namespace attnlab {

class FeatureAttention : public DotProductAttention {
 public:
  static constexpr AttentionTraits kTraits{.causal = true,
                                           .padding = true,
                                           .ragged = true,
                                           .different_lengths = true,
                                           .different_source = true,
                                           .second_order = true,
                                           .linear_cost = true};

  /// @param eps  added to the sum of a query's weights. 0: a row whose weights sum to 0 gives zeros
  FeatureAttention(const AttentionShape& shape, double eps);

  bool remembers() const override { return true; }

 protected:
  Tensor normalise(const Tensor& logits, const Tensor& visible, AttentionContext&) const override;
  Tensor own_kernel(const Tensor& queries, const Tensor& keys, const AttentionInput& input,
                    AttentionContext&) const override;
  Tensor attend_behind(const AttentionInput& input, AttentionMemory& memory,
                       AttentionContext& context) override;

 private:
  /// @param sums  of values, and of ones at the end
  Tensor divided(const Tensor& sums, const Tensor& values) const;
  Tensor divisor(const Tensor& total) const;

  double eps_;
};

}  // namespace attnlab
