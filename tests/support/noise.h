// Numbers without pattern, the same on every machine.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab::testing {

/// Uniform in [-1, 1).
inline Tensor noise(const std::vector<std::int64_t>& shape, std::uint64_t seed,
                    at::ScalarType dtype = at::kFloat) {
  Tensor tensor = at::empty(shape, at::kDouble);
  std::uint64_t state = seed * 2654435761U + 1;
  double* out = tensor.data_ptr<double>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    out[i] = static_cast<double>(state >> 33) / 2147483648.0 * 2 - 1;
  }
  return tensor.to(dtype);
}

inline Tensor leaf(const Tensor& values) { return values.clone().set_requires_grad(true); }

/// All numbers, in order, in double precision.
inline std::vector<double> numbers_in(const Tensor& tensor) {
  const Tensor flat = tensor.detach().to(at::kCPU, at::kDouble).reshape({-1}).contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

}  // namespace attnlab::testing
