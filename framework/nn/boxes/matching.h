// The cheapest assignment of rows to columns: each row has one column of its own.
//
//   minimise sum_i cost[i, column(i)],   all columns different
//
// The Hungarian method with potentials (Kuhn 1955, Munkres 1957; shortest augmenting paths by
// Jonker and Volgenant 1987). Cost: O(rows^2 columns).
#pragma once

#include <cstdint>
#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// @param cost  [rows, columns] floating point on any device, finite
/// @returns the column of each row; -1 for a row that got none, where there are more rows than
///          columns. Of assignments that cost the same it is always the same one.
/// @throws ShapeError for another rank or numbers that are not finite.
std::vector<std::int64_t> cheapest_assignment(const Tensor& cost);

}  // namespace attnlab
