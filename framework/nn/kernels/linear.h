// Y = X W^T + b.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

/// Large float32 products on the CPU go to oneDNN, which LibTorch brings along and which is faster
/// there than OpenBLAS under each instruction set (docs/results/speed.md); everything else, and
/// everything where attnlab was built without oneDNN's headers, is LibTorch's.
/// Their precision is that of precision.h.
/// @param x       [..., in] floating point
/// @param weight  [out, in] of the same dtype and device
/// @param bias    [out]; undefined: none
/// @returns [..., out], differentiable any number of times.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias);

/// linear() of [before, x] along the tokens, where what comes before is data: it gets no gradient,
/// and none is computed.
/// @param before  [B, M, in], does not require a gradient
/// @param x       [B, L, in]
/// @returns [B, M + L, out].
Tensor linear_after(const Tensor& before, const Tensor& x, const Tensor& weight,
                    const Tensor& bias);

}  // namespace attnlab
