// Glorot's rule: how published graph layers start their linear maps.
#pragma once

#include <cmath>

#include "framework/nn/modules/layers.h"

namespace attnlab {

/// Fills with draws that are uniform in +-sqrt(6 / (in + out)): Glorot and Bengio, AISTATS 2010.
inline void fill_glorot(Tensor& tensor, std::int64_t in, std::int64_t out) {
  const at::NoGradGuard no_gradients;
  const double bound = std::sqrt(6 / double(in + out));
  tensor.uniform_(-bound, bound);
}

/// Starts a map so, its bias as 0.
inline void start_glorot(Linear& linear) {
  fill_glorot(linear.weight, linear.weight.size(1), linear.weight.size(0));
  const at::NoGradGuard no_gradients;
  if (linear.bias.defined()) linear.bias.zero_();
}

}  // namespace attnlab
