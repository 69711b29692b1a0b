// The negative log-likelihood of a softmax over many classes, without all its logits at once.
//
//   nll_n = log sum_v exp(x_n . w_v + b_v) - (x_n . w_t(n) + b_t(n))
//
// Rows are taken in chunks whose logits are a few megabytes. Where there are several, the gradient
// computes each chunk's logits again: a third more arithmetic, for memory that does not grow with
// rows times classes.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

/// @param x        [N, D] floating point
/// @param weight   [V, D] of the same dtype and device
/// @param bias     [V]; undefined: none
/// @param targets  [N] int64, 0 to V - 1
/// @returns [N], differentiable any number of times.
Tensor linear_nll(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& targets);

}  // namespace attnlab
