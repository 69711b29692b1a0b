// Learned positions of a grid of patches, for images of another size.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

/// Positions that were learned on a square grid, resized by bicubic interpolation (a = -3/4,
/// corners not aligned), as DeiT and timm do; what stands before them (the class token's) stays.
/// @param saved  [1, k + m * m, dim]
/// @param own    [1, k + rows * columns, dim]; k is known from it
/// @returns [1, k + rows * columns, dim]; `saved` itself where it is no such grid.
Tensor resized_positions(const Tensor& saved, const Tensor& own, std::int64_t rows,
                         std::int64_t columns);

}  // namespace attnlab
