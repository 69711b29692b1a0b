// Learned factors of each head's channels.
//
//   y_h = x_h ⊙ c_h,   dx_h = dy_h ⊙ c_h,   dc_h = sum over examples and tokens of dy_h ⊙ x_h
//
// As a product that broadcasts, but in one pass forward and one backward, a head at a time: what
// counts where many heads of few channels stand side by side, as in an ensemble. The kernel is for
// float32 on the CPU; elsewhere it is that product.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

/// @param x        [B, H, L, D] floating point, in any layout
/// @param factors  [H, 1, D] of the same dtype and device
/// @returns x * factors, in the layout of x; differentiable any number of times.
Tensor scale_heads(const Tensor& x, const Tensor& factors);

}  // namespace attnlab
