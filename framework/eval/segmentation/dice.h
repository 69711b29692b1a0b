// The soft Dice loss: one minus the overlap of probabilities and labels.
//
//   loss = mean over classes c that are there of  1 - 2 sum_i p_ic y_ic / (sum_i p_ic + sum_i y_ic)
//
// Source: Milletari et al., V-Net, 3DV 2016, without the squares in its denominator, as Sudre et
// al., DLMIA 2017 (arXiv:1707.03237) have it. Cost: a pass over N K numbers.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

/// @param probabilities  [N, K] floating point
/// @param labels         [N] int64, 0 to K - 1
/// @returns a scalar, differentiable; 0 without rows.
Tensor dice_loss(const Tensor& probabilities, const Tensor& labels);

}  // namespace attnlab
