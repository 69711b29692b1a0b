// Positions: the sinusoids of Vaswani et al. and Transformer-XL, and logits by distance as logits
// by key.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

/// sin(p f_i) for all i, beside cos(p f_i):  f_i = 10000^(-2i / dim),  i = 0 .. dim / 2 - 1.
/// @param places  [n] of any dtype
/// @param dim     even
/// @returns [n, dim], computed in float64, of the options' dtype and device.
Tensor sinusoids(const Tensor& places, std::int64_t dim, const at::TensorOptions& options);

/// out[i, j] = x[i, Lq - 1 - i + j]: a view, differentiable.
/// @param x  [B, H, Lq, Lq + Lk - 1]; column c is distance Lk - 1 - c, as RelativePositions::keys
/// @returns [B, H, Lq, Lk].
Tensor by_key(const Tensor& x, std::int64_t keys);

}  // namespace attnlab
