// Sigmoid and power normalisers: see the header. Sinkhorn's is in sinkhorn.cpp.
#include "framework/nn/attention/normalisers.h"

#include <ATen/OpMathType.h>

#include <limits>

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

Tensor sigmoid_weights(const Tensor& logits, const Tensor& visible, const SigmoidOptions& options) {
  const at::ScalarType dtype = logits.scalar_type();
  Tensor shifted;
  if (options.bias == "constant") {
    shifted = logits + options.constant;
  } else {
    // A narrow dtype would round the bias by more than it rounds logits: added in float32.
    shifted = logits - visible_counts(visible, logits).clamp_min_(1).log_();
  }
  if (visible.defined()) {
    shifted.masked_fill_(visible.logical_not(), -std::numeric_limits<double>::infinity());
  }
  return shifted.sigmoid_().to(dtype);
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
