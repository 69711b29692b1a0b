// Positions of a grid of patches: learned ones, for images of another size, and sinusoids.
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

/// Positions of a grid of patches as those of another grid, likewise.
/// @param positions  [1, k + rows * columns, dim]
/// @returns [1, k + new_rows * new_columns, dim].
Tensor resized_grid(const Tensor& positions, std::int64_t rows, std::int64_t columns,
                    std::int64_t new_rows, std::int64_t new_columns);

/// Sinusoids of each cell's row beside those of its column, row by row.
/// @param dim  a multiple of 4
/// @returns [1, rows * columns, dim], of the options' dtype and device.
Tensor grid_sinusoids(std::int64_t rows, std::int64_t columns, std::int64_t dim,
                      const at::TensorOptions& options);

}  // namespace attnlab
