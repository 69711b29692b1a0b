// Voxels: points on a grid, and sparse grids as sorted keys. No dense grid is ever made.
//
//   key = batch << 48 | x << 32 | y << 16 | z,   0 <= x, y, z < 65536, batch < 32768
//
// Sorted keys make every question of who lies where a walk along two lists: neighbours, the voxels
// of twice the size, equal places.
// Cost: a radix sort; memory O(points).
#pragma once

#include <string>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// Places along each axis of a grid.
inline constexpr std::int64_t kGridSide = 1 << 16;

/// Voxels that hold points.
struct Voxels {
  Tensor grid;     ///< [M, 3] int64, in order of their keys, from the cloud's least corner on
  Tensor inverse;  ///< [N] int64: each point's row of `grid`
};

/// @param coordinates  [N, 3] float32 or float64 on the CPU, finite; N may be 0
/// @param size         side of a voxel, in the coordinates' unit
/// @param place        what the cloud is called in messages: its file
/// @returns the occupied voxels, whatever the order of the points.
/// @throws DataError where a coordinate is not finite, or the cloud is wider than 65536 voxels.
Voxels voxelise(const Tensor& coordinates, double size, const std::string& place);

/// @param grid     [N, 3] int64
/// @param offsets  [B + 1] int64 on the CPU: where each example begins
/// @returns [N] int64 on the CPU
/// @throws DataError for a coordinate below 0 or above 65535, and for more than 32768 examples;
///         ShapeError.
Tensor voxel_keys(const Tensor& grid, const Tensor& offsets);

/// [N, 3] int64, without the batch.
Tensor voxel_places(const Tensor& keys);

/// The same numbers once each, rising, and where each of them went.
struct UniqueKeys {
  Tensor keys;  ///< [M] int64
  Tensor rows;  ///< [N] int64: each number's row of `keys`
};

/// @param keys  [N] int64 on the CPU, none negative, of any order
UniqueKeys unique_keys(const Tensor& keys);

/// The voxels of twice the size that hold these. @param keys  rising
UniqueKeys parent_keys(const Tensor& keys);

}  // namespace attnlab
