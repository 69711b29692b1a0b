// GELU(x) = x P(N(0, 1) <= x): Hendrycks and Gimpel 2016, the exact form, and their approximation
// by tanh, GPT-2's.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

/// at::gelu, in one short pass forward and one backward for float32 on the CPU, where LibTorch's
/// takes several times as long. Differentiable any number of times. The relative error of the
/// probability is below 3e-7 wherever it is a normal number.
Tensor gelu(const Tensor& x);

/// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x³))), LibTorch's. Differentiable any number of times.
Tensor gelu_tanh(const Tensor& x);

/// The gradient of gelu(x) by x, as operations that autograd can follow.
/// @param grad  of gelu(x)
Tensor composed_gelu_gradient(const Tensor& x, const Tensor& grad);

namespace rows {

/// GELU of n numbers. @param y  may be x
void gelu(const float* x, float* y, std::int64_t n);

/// Its gradient by x. @param dx  may be dy
void gelu_gradient(const float* x, const float* dy, float* dx, std::int64_t n);

/// GELU, and what its gradient is multiplied by: cheaper together than one after the other.
/// @param y  may be x
void gelu_and_slope(const float* x, float* y, float* slope, std::int64_t n);

/// x times factors, in place.
void multiply(const float* factors, float* x, std::int64_t n);

}  // namespace rows

}  // namespace attnlab
