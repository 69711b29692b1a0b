// Boxes as tensors: two ways to write them, and how much two of them have in common.
//
//   corners  (x0, y0, x1, y1), x to the right, y down, x0 <= x1, y0 <= y1
//   centred  (centre x, centre y, width, height)
//   IoU(a, b)  = |a ∩ b| / |a ∪ b|
//   GIoU(a, b) = IoU(a, b) - |C \ (a ∪ b)| / |C|,   C the smallest box around both
//
// All are differentiable and take any unit, the same for both boxes. What is divided by is at least
// 1e-12, so boxes without area give 0 where they meet nothing.
// Source: Rezatofighi et al., Generalized Intersection over Union, CVPR 2019, arXiv:1902.09630.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

/// [..., 4] centred to [..., 4] corners.
Tensor corners_of(const Tensor& centred);
/// [..., 4] corners to [..., 4] centred.
Tensor centred_of(const Tensor& corners);

/// Of each box of `a` with each of `b`. @param a  [..., N, 4] corners @param b  [..., M, 4] corners
/// @returns [..., N, M].
Tensor pairwise_iou(const Tensor& a, const Tensor& b);
Tensor pairwise_giou(const Tensor& a, const Tensor& b);

/// Box by box. @param a, b  [..., 4] corners. @returns [...].
Tensor giou(const Tensor& a, const Tensor& b);

/// log(p / (1 - p)) of p cut to [eps, 1 - eps]: what a sigmoid takes back.
Tensor inverse_sigmoid(const Tensor& p, double eps = 1e-5);

}  // namespace attnlab
