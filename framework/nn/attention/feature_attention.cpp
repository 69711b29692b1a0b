// Attention by features: see the header.
#include "framework/nn/attention/feature_attention.h"

#include <ATen/OpMathType.h>

#include "framework/nn/attention/linear_attention.h"

namespace attnlab {

FeatureAttention::FeatureAttention(const AttentionShape& shape, double eps)
    : DotProductAttention(shape, {.scale = 1.0, .normaliser = Normaliser::custom}, kTraits),
      eps_(eps) {}

Tensor FeatureAttention::normalise(const Tensor& logits, const Tensor& visible,
                                   AttentionContext&) const {
  const Tensor weights = visible.defined() ? logits.masked_fill(visible.logical_not(), 0) : logits;
  const Tensor total = weights.sum(-1, true, at::toOpMathType(logits.scalar_type()));
  return (weights / divisor(total)).to(logits.scalar_type());
}

Tensor FeatureAttention::own_kernel(const Tensor& queries, const Tensor& keys,
                                    const AttentionInput& input, AttentionContext&) const {
  return divided(linear_sums(queries, keys, with_ones(input.values), input.visible), input.values);
}

Tensor FeatureAttention::attend_behind(const AttentionInput& input, AttentionMemory& memory,
                                       AttentionContext& context) {
  const Tensor queries = map_queries(input.queries, context), keys = map_keys(input.keys, context);
  const std::int64_t sizes[] = {input.batch(), input.heads(), keys.size(3), shape().values() + 1};
  Tensor state = only_part(memory, sizes);
  const Tensor sums = linear_sums_behind(queries, keys, with_ones(input.values), state);
  memory.parts = {state};
  return divided(sums, input.values);
}

Tensor FeatureAttention::divided(const Tensor& sums, const Tensor& values) const {
  const std::int64_t channels = values.size(3);
  return (sums.narrow(3, 0, channels) / divisor(sums.narrow(3, channels, 1)))
      .to(values.scalar_type());
}

Tensor FeatureAttention::divisor(const Tensor& total) const {
  return eps_ > 0 ? total + eps_ : total.masked_fill(total == 0, 1);
}

}  // namespace attnlab
