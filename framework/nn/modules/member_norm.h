// Layer normalisation in an ensemble: each member's examples by its own weight and bias.
//
//   y = (x - mean(x)) / sqrt(var(x) + eps) * w[e] + b[e],   over the last dimension
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

/// @param x             [E * B, ..., D] floating point
/// @param weight, bias  [E * D] of the same dtype and device
/// @param members       E; with one member it is at::layer_norm
/// @returns [E * B, ..., D], differentiable any number of times.
/// @throws ShapeError where E does not divide the first dimension, or weight and bias are no [E *
/// D]. Cost: one pass forward, one backward for float32 on the CPU, where rows of a few numbers
/// cost LibTorch several times their arithmetic; elsewhere LibTorch's normalisation and two passes
/// more.
Tensor member_layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                         std::int64_t members);

}  // namespace attnlab
