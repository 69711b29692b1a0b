// Maps to decays: see the header.
#include "framework/nn/attention/decay_maps.h"

#include <cmath>
#include <memory>

namespace attnlab {

LowRankSourceMap::LowRankSourceMap(std::int64_t width, std::int64_t rank, std::int64_t channels,
                                   const AttentionShape& shape, bool bias)
    : down_(register_module("down", std::make_shared<Linear>(width, rank, false, shape.members))),
      up_(register_module("up", std::make_shared<SourceMap>(rank, channels, shape, 0, bias))) {}

StepDecay::StepDecay(std::int64_t channels, double lowest, const AttentionShape& shape) {
  constexpr double kHighest = 16, kShortestStep = 1e-3, kLongestStep = 0.1, kFloor = 1e-4;
  const Tensor rates = at::empty({shape.heads}).uniform_(lowest, kHighest).clamp_min_(kFloor);
  log_rates = register_parameter("log_rates", rates.log());
  const Tensor steps = at::empty({shape.heads * channels})
                           .uniform_(std::log(kShortestStep), std::log(kLongestStep))
                           .exp();
  // softplus(b) = step where b = step + log(1 - exp(-step)).
  bias = register_parameter("bias", steps + (-at::expm1(-steps)).log());
}

Tensor StepDecay::steps(const Tensor& x) const {
  return at::softplus(x + bias.view({x.size(1), 1, x.size(3)}));
}

Tensor StepDecay::log_decays(const Tensor& steps) const {
  return -log_rates.exp().view({-1, 1, 1}) * steps;
}

}  // namespace attnlab
