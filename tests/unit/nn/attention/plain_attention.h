// Dot-product attention without maps, and with sigmoid weights instead of its softmax.
#pragma once

#include <memory>

#include "framework/nn/attention/dot_product_attention.h"
#include "tests/support/naive_attention.h"

namespace attnlab::testing {

class PlainAttention final : public DotProductAttention {
 public:
  using DotProductAttention::DotProductAttention;
};

inline std::shared_ptr<PlainAttention> plain_attention(const AttentionInput& in,
                                                       const DotProductSettings& settings = {},
                                                       double dropout = 0) {
  AttentionShape shape = shape_of(in);
  shape.dropout = dropout;
  return std::make_shared<PlainAttention>(shape, settings);
}

/// Sigmoid weights where pairs are visible, zeros elsewhere.
inline Tensor visible_sigmoid(const Tensor& logits, const Tensor& visible) {
  const Tensor weights = logits.sigmoid();
  return visible.defined() ? weights.masked_fill(visible.logical_not(), 0) : weights;
}

/// Sigmoid weights, by a normaliser of its own.
class SigmoidAttention final : public DotProductAttention {
 public:
  explicit SigmoidAttention(const AttentionInput& in)
      : DotProductAttention(shape_of(in), {.normaliser = Normaliser::custom}) {}

 protected:
  Tensor normalise(const Tensor& logits, const Tensor& visible, AttentionContext&) const override {
    return visible_sigmoid(logits, visible);
  }
};

}  // namespace attnlab::testing
