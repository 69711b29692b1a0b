// Where the cells of a grid stand, for attentions that read places (AttentionTraits::places).
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

/// Row and column of each cell, row by row: [1, rows * columns, 2] float32, in cells from the top
/// left one, which stands at (0, 0).
Tensor cell_places(std::int64_t rows, std::int64_t columns, const at::Device& device);

/// With a class token before them, which stands in the middle of the grid: there an image and its
/// mirror image place it alike. @returns [1, 1 + N, 2]. @param cells  [1, N, 2]
Tensor behind_class_token(const Tensor& cells);

}  // namespace attnlab
