// What a page shows of a large cloud: fewer points, in few bytes, and where one of them looks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// Rows that stand for a whole cloud: all of them, or `most`, rising. They are every so-manieth of
/// an order by class and, in a class, along Hilbert's curve: so each class keeps its share to one
/// point, and each part of space its share of the class. The same cloud gives the same rows.
/// @param grid    [N, 3] int64: a place of each point
/// @param labels  [N] int64, or undefined
/// @param always  a row that is among them in any case
std::vector<std::int64_t> thinned(const Tensor& grid, const Tensor& labels, std::int64_t most,
                                  std::int64_t always);

/// How the attention of one voxel lies over the others.
struct VoxelAttention {
  Tensor weight;  ///< [M] float64: of the token that holds each voxel; -1: not in the patch
  std::int64_t tokens = 0;  ///< of the patch, over which the weights sum to 1
};

/// @param weights  [P, K, K], of the last layer, of one head or the mean of several
/// @param slots    [P, K] int64: the token in each slot; -1: padding. A token's first slot is its
///                 own: others are borrowed, and what they attend to is not read
/// @param token    [M] int64: the token that holds each voxel
/// @param voxel    whose attention
/// @returns no weights where the tensors do not fit each other
VoxelAttention attention_of_voxel(const Tensor& weights, const Tensor& slots, const Tensor& token,
                                  std::int64_t voxel);

/// Coordinates as three uint16 per point, the first byte the lower one, over a cube.
struct PackedPlaces {
  double low[3] = {0, 0, 0};  ///< the cube's least corner
  double side = 1;
  std::string bytes;
};
/// @param coordinates  [n, 3], finite
PackedPlaces packed_places(const Tensor& coordinates);

/// Classes as a byte each; 255: none. @param classes  [n] int64, below 255
std::string packed_classes(const Tensor& classes);

/// Weights as a byte each: 254 is the largest, 255 outside. @param weights  [n] float64; -1:
/// outside
std::string packed_weights(const Tensor& weights, double most);

}  // namespace attnlab
