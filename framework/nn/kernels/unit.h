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

/// `unit` of one matrix on the thread that calls: for kernels that fold it into their own pass.
/// @param x        [L, D] float32 or float64 on the CPU; the numbers of a row are neighbours, here
///                 and below.
/// @param y        [L, D], filled; not x itself.
/// @param inverse  [L, 1], filled: 1 / max(|x|_2, eps)
void unit_rows(const Tensor& x, double eps, const Tensor& y, const Tensor& inverse);

/// y once more, from what `unit_rows` left in `inverse`.
void unit_rows_again(const Tensor& x, const Tensor& inverse, const Tensor& y);

/// @param y, inverse  of `unit_rows`
/// @param grad        [L, D]: the gradient of y, and afterwards that of x.
void differentiate_unit_rows(const Tensor& y, const Tensor& inverse, double eps,
                             const Tensor& grad);

/// The same gradient for any shape [..., D], as operations that autograd can follow.
Tensor composed_unit_gradient(const Tensor& x, const Tensor& grad, double eps);

}  // namespace attnlab
