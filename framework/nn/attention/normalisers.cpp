// Sigmoid and power normalisers: see the header. Sinkhorn's is in sinkhorn.cpp.
#include "framework/nn/attention/normalisers.h"

#include <ATen/OpMathType.h>

#include "framework/nn/attention/dot_product_attention.h"

namespace attnlab {
namespace {

/// A mask with leading dimensions of 1 before its own.
Tensor with_four_dimensions(Tensor mask) {
  while (mask.dim() < 4) mask = mask.unsqueeze(0);
  return mask;
}

}  // namespace

Tensor visible_counts(const Tensor& visible, const Tensor& logits) {
  const auto options = logits.options().dtype(at::toOpMathType(logits.scalar_type()));
  const auto keys = static_cast<double>(logits.size(-1));
  if (!visible.defined()) return at::full({1, 1, 1, 1}, keys, options);
  const Tensor mask = with_four_dimensions(visible);
  // One column stands for all keys.
  if (mask.size(-1) == 1) return mask.to(options) * keys;
  return mask.sum(-1, true).to(options);
}

Tensor visible_counts(const AttentionInput& in) {
  const Visibility& visible = in.visible;
  const std::int64_t rows = in.query_count(), columns = in.key_count();
  const at::Device device = in.queries.device();
  if (visible.pairs.defined() || !(visible.causal || visible.window > 0)) {
    return visible_counts(visible_pairs(visible, rows, columns, device),
                          in.queries.new_empty({0, columns}));
  }
  // Query i sees keys [first, end); the last query stands at the last key.
  const Tensor place =
      at::arange(columns - rows, columns, at::TensorOptions().dtype(at::kLong).device(device));
  Tensor first = at::zeros_like(place), end = at::full_like(place, columns);
  if (visible.window > 0) {
    first = (place - (visible.window - 1)).clamp_(0, columns);
    end = (place + visible.window).clamp_(0, columns);
  }
  if (visible.causal) end = at::minimum(end, (place + 1).clamp_min_(0));
  Tensor counts = (end - first).unsqueeze(0);
  if (visible.key_valid.defined()) {
    const Tensor before = at::constant_pad_nd(visible.key_valid.cumsum(1), {1, 0});
    counts = before.index_select(1, end) - before.index_select(1, first);
  }
  return counts.unsqueeze(1).unsqueeze(-1).to(in.queries.scalar_type());
}

RowWeights sigmoid_weights(const AttentionInput& input, const SigmoidOptions& options) {
  if (options.bias == "constant") {
    return {&sigmoid_rule(), at::full({1, 1, 1, 1}, options.constant, input.queries.options()), {}};
  }
  return {&sigmoid_rule(), visible_counts(input).clamp_min_(1).log_().neg_(), {}};
}

PowerNormaliser::PowerNormaliser(const PowerOptions& options, std::int64_t heads)
    : m(register_parameter("m", at::full({heads}, options.init))) {}

Tensor PowerNormaliser::factor(const Tensor& counts) const {
  const Tensor power = m.to(counts.scalar_type()).sigmoid().view({-1, 1, 1});
  return (counts.clamp_min(1).log() * power).neg_().exp();
}

Tensor PowerNormaliser::forward(const Tensor& logits, const Tensor& visible) const {
  const Tensor weights =
      (logits * factor(visible_counts(visible, logits))).to(logits.scalar_type());
  return visible.defined() ? weights.masked_fill(visible.logical_not(), 0) : weights;
}

}  // namespace attnlab
