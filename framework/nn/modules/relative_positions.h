// Positions: the sinusoids of Vaswani et al. and Transformer-XL.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

/// sin(p f_i) for all i, beside cos(p f_i):  f_i = 10000^(-2i / dim),  i = 0 .. dim / 2 - 1.
/// @param places  [n] of any dtype
/// @param dim     even
/// @returns [n, dim], computed in float64, of the options' dtype and device.
Tensor sinusoids(const Tensor& places, std::int64_t dim, const at::TensorOptions& options);

}  // namespace attnlab
