// Space-filling curves: an order of voxels in which neighbours on the curve are near in space.
//
//   code = batch << 48 | curve(x, y, z),   16 bits an axis
//
// z interleaves the bits of the axes, x first; Hilbert's curve also turns each cube so that
// successive codes are voxels that share a face. The transposed ones change x and y. Every curve
// fills cubes within cubes: code >> 3 is the same for the voxels of a cube, and orders the cubes.
// Of z that is the code of the cube's own place. Of Hilbert's curve it is not: the place has one
// bit fewer, so that its code begins with an octant more, which turns the axes. Hence `halvings`.
// The depth is 16 always. The published code takes the depth of the batch's largest coordinate, so
// that a cloud's Hilbert order there depends on the clouds beside it.
// Source: Morton 1966; Skilling, Programming the Hilbert curve, AIP 707, 2004; the four orders: Wu
// et al., Point Transformer V3, CVPR 2024 (arXiv:2312.10035).
// Cost: some nanoseconds a voxel: two levels of Hilbert's curve are one step in a table.
#pragma once

#include <array>
#include <cstdint>

#include "framework/tensor/tensor.h"

namespace attnlab {

enum class Curve { z, z_transposed, hilbert, hilbert_transposed };

inline constexpr std::array kCurves = {Curve::z, Curve::z_transposed, Curve::hilbert,
                                       Curve::hilbert_transposed};

/// The place of a voxel on a curve, 48 bits. @param x, y, z  0 to 65535
std::uint64_t curve_code(Curve curve, std::uint32_t x, std::uint32_t y, std::uint32_t z);

/// The same of many voxels, the batch above it.
/// @param keys      [N] int64 on the CPU, of `voxel_keys`, or of `parent_keys` of such
/// @param halvings  how often the places were halved, at least 0: the code of the voxel that holds
///                  smaller ones is theirs >> 3 for each time, as published
/// @returns [N] int64
Tensor curve_codes(const Tensor& keys, Curve curve, std::int64_t halvings = 0);

/// The order that sorts numbers: [N] int64, stable. For codes and keys: a radix sort that skips the
/// digits which all numbers share, one after the other in memory.
/// @param numbers  [N] int64 on the CPU, none negative
Tensor sorting_order(const Tensor& numbers);

}  // namespace attnlab
