// Layer normalisation in an ensemble: each member's examples by its own weight and bias.
//
//   layer   y = (x - mean(x)) / sqrt(var(x) + eps) * w[e] + b[e],   over the last dimension
//   rms     y = x / sqrt(mean(x^2) + eps) * w[e] + b[e]
//
// Sources: Ba et al. 2016; Zhang and Sennrich, Root mean square layer normalization, NeurIPS 2019.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

enum class NormKind { layer, rms };

/// @param x             [E * B, ..., D] floating point
/// @param weight, bias  [E * D] of the same dtype and device; bias undefined, with one member or of
///                      `rms`: none
/// @param members       E
/// @returns [E * B, ..., D], differentiable any number of times.
/// @throws ShapeError where E does not divide the first dimension, or weight and bias are no
/// [E * D].
/// Cost: one pass forward, one backward for float32 on the CPU; elsewhere LibTorch's normalisation,
/// with several members two passes more.
Tensor member_layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                         std::int64_t members, NormKind kind = NormKind::layer);

struct SumAndNorm {
  Tensor sum, norm;
};

/// x + y, and its norm, in the same pass: a residual and the norm behind it.
/// @param x, y  [..., D] alike
/// @returns both, as member_layer_norm of one member.
SumAndNorm add_layer_norm(const Tensor& x, const Tensor& y, const Tensor& weight,
                          const Tensor& bias, double eps, NormKind kind = NormKind::layer);

}  // namespace attnlab
