// Rows that are read by number, with gradients whose sums have one order.
//
//   take:  y_i = x_{source_i}                        backward: dx_j = sum over i with source_i = j
//   most:  y_j = max over i with source_i = j        backward: to the first i that has the maximum
//
// Gathering into patches, pooling and unpooling are these two. The users of a row are kept sorted,
// so that each sum has one owner and one order: the same bits whatever the number of threads, and
// on any device, without atomic additions.
// Cost: O(N C) numbers moved; the map O(N).
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

/// Which row of x each row of y is.
struct RowMap {
  Tensor source;  ///< [N] int64; -1: zeros
  Tensor starts;  ///< [M + 1] int64: users of row j are users[starts[j]] to users[starts[j + 1]]
  Tensor users;   ///< int64: rows of y, rising within each row of x
  std::int64_t most = 0;  ///< users of one row

  std::int64_t rows() const { return starts.size(0) - 1; }
  RowMap to(const at::Device& device) const;
};

/// @param source  [N] int64 on the CPU, -1 to rows - 1
/// @param rows    M, of x
RowMap row_map(const Tensor& source, std::int64_t rows);

/// @param x  [M, C] floating point
/// @returns [N, C]; differentiable twice.
/// @throws ShapeError where x has other rows than the map.
Tensor take_rows(const Tensor& x, const RowMap& map);

/// The transpose: sums over the users of each row. @param y  [N, C] @returns [M, C]
Tensor sum_rows(const Tensor& y, const RowMap& map);

/// @param y  [N, C]; every row of the map has a user
/// @returns [M, C]
Tensor max_rows(const Tensor& y, const RowMap& map);

}  // namespace attnlab
