// Places as sines and cosines of many wavelengths, as transformers for images take them.
//
//   e(p)[2 i], e(p)[2 i + 1] = sin, cos(2 pi p / 10000^(2 i / n)),   i = 0 ... n / 2 - 1
//
// for each coordinate p in [0, 1], n channels each, one coordinate's after the other's.
// Source: Vaswani et al. 2017; Carion et al., DETR, ECCV 2020 (of maps); Zhu et al., Deformable
// DETR, ICLR 2021 (of proposals).
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

/// @param places  [..., P] @param channels  n, of each coordinate; even
/// @returns [..., P n].
Tensor sine_positions(const Tensor& places, std::int64_t channels);

/// The middle of each cell of a map as a share (y, x) of the image, at most 1: the middle of a last
/// cell that the image covers in part may lie outside it.
/// @param sizes  [B, 2] float: rows and columns that each image covers, fractions where its size is
///               no multiple of the stride
/// @returns [B, rows columns, 2], as `sizes`.
Tensor grid_places(std::int64_t rows, std::int64_t columns, const Tensor& sizes);

/// Rows and columns of the real part. @param valid  [B, h, w] bool, true = real; real cells are a
/// rectangle from the top left. @returns [B, 2] float32 (y, x), at least 1.
Tensor valid_sizes(const Tensor& valid);

}  // namespace attnlab
