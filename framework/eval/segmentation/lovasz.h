// The Lovász-softmax loss: a convex stand-in for the mean intersection over union.
//
//   loss = mean over classes c that are there of  sum_i e_(i) g_i
//   e    = |[y = c] - p_c|, sorted from the largest on;   g_i = J_i - J_{i-1}
//   J_i  = 1 - (G - #{c among the first i}) / (G + #{not c among the first i}),   G = #{y = c}
//
// Source: Berman et al., The Lovász-softmax loss, CVPR 2018 (arXiv:1705.08790), algorithm 1 and
// eq. 11.
// Cost: a sort of N for each class.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

/// @param probabilities  [N, K] floating point
/// @param labels         [N] int64, 0 to K - 1
/// @returns a scalar, differentiable; 0 without rows.
Tensor lovasz_softmax(const Tensor& probabilities, const Tensor& labels);

}  // namespace attnlab
