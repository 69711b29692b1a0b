// How long attention is cut into blocks, the same on every instruction set.
#pragma once

#include "framework/nn/kernels/matrix.h"

namespace attnlab {

/// Queries and keys of a block: a multiple of every tile's rows, and of every panel's columns. The
/// logits of two blocks stay in a core's second-level cache.
inline constexpr std::int64_t kQueryBlock = 96;
inline constexpr std::int64_t kKeyBlock = 256;

/// From one row of a block to the next: no power of two, so that rows do not share lines of cache.
template <class T>
inline constexpr std::int64_t kBlockRow = kKeyBlock + kPadding<T>;

/// From one row to the next of a block's logits by distance: its pairs' distances, and up to a
/// panel more at both ends.
template <class T>
constexpr std::int64_t distance_row(std::int64_t rows, std::int64_t columns) {
  return padded<T>(rows + columns + 64) + kPadding<T>;
}

/// Numbers of scratch that logits of relative positions need. @param rows, columns  of a block
template <class T>
std::int64_t relative_room(std::int64_t dim, std::int64_t distances, std::int64_t rows,
                           std::int64_t columns) {
  return panel_room<T>(dim, distances) + rows * distance_row<T>(rows, columns);
}

/// One of `shares` parts of a head's work.
struct HeadShare {
  std::int64_t head, share, shares;
};

}  // namespace attnlab
