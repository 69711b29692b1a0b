// Rows of unit length.
//
//   y = x / max(|x|_2, eps),   dx = (dy - y (y . dy)) / |x|   where |x| > eps,   dy / eps elsewhere
//
// On the CPU one pass forward and one backward. Composed operations elsewhere and for gradients of
// gradients.
#pragma once

#include <optional>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// x / max(|x|_2, eps) along the last dimension, in one pass forward and one backward.
/// Differentiable any number of times.
/// @param x  [..., D] floating point.
Tensor unit(const Tensor& x, double eps);

/// Keys are brought to unit length with this floor of their norms; empty: they are left alone.
using UnitKeys = std::optional<double>;

/// The gradient of x for any shape [..., D], as operations that autograd can follow.
Tensor composed_unit_gradient(const Tensor& x, const Tensor& grad, double eps);

}  // namespace attnlab
