// Maps as tokens, and two maps on one grid.
#pragma once

#include "framework/nn/backbones/cell_places.h"
#include "framework/nn/backbones/image_features.h"

namespace attnlab {

/// The tokens of a map, row by row, zeros where it is padded.
struct Grid {
  Tensor tokens;   ///< [B, h w, C]
  Tensor places;   ///< [B, h w, C] sines of where each one lies, zeros where padded
  Tensor middles;  ///< [B, h w, 2] where each one lies, (y, x) in shares of the image
  Tensor valid;    ///< [B, h, w] bool
  Tensor sizes;    ///< [B, 2] rows and columns that each image covers, fractions among them

  /// Row and column of each token, for attentions that read places: [1, h w, 2].
  Tensor cells() const { return cell_places(valid.size(1), valid.size(2), valid.device()); }
};

/// @param map    [B, C, h, w] features   @param valid  [B, h, w] bool
/// @param sizes  as of the grid
Grid grid_of(const Tensor& map, const Tensor& valid, const Tensor& sizes);

/// Tokens of a grid of h x w on a larger one, from its top left: [B, rows columns, C], zeros
/// around.
Tensor on_grid(const Tensor& tokens, const Tensor& valid, std::int64_t rows, std::int64_t columns);
/// The same of [B, h, w] bool: [B, rows, columns], false around.
Tensor on_grid(const Tensor& valid, std::int64_t rows, std::int64_t columns);

/// Zeros where [B, h, w] is false. @param x  [B, h w, C]
Tensor hidden(const Tensor& x, const Tensor& valid);

}  // namespace attnlab
