// Patches: groups of neighbours on a curve, for attention.
//
// The voxels of a cloud, in the curve's order, are cut into groups of K. The last short group is
// filled with the previous group's voxels of the same slots, as published: every group then has K
// keys. What attention gives for a borrowed voxel is not read. A cloud of fewer than K voxels is a
// group by itself, padded to the longest where others are longer.
// Source: Wu et al., Point Transformer V3, CVPR 2024 (arXiv:2312.10035).
// Cost: O(N).
#pragma once

#include "framework/nn/points/rows.h"

namespace attnlab {

struct Patches {
  std::int64_t count = 0;  ///< P
  std::int64_t size = 0;   ///< K: the size asked for, or the largest cloud where that is smaller
  RowMap slots;            ///< [P * K]: the row in each slot, -1 = padding
  RowMap places;           ///< [N]: each row's own slot
  Tensor valid;            ///< [P, K] bool, false = padding; undefined where there is none

  Patches to(const at::Device& device) const;
};

/// @param order    [N] int64 on the CPU: rows in the curve's order, clouds one after the other
/// @param offsets  [B + 1] int64 on the CPU: where each cloud begins
/// @param size     1 or more
Patches patches_of(const Tensor& order, const Tensor& offsets, std::int64_t size);

}  // namespace attnlab
