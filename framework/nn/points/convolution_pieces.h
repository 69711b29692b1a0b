// What the loops of sparse convolution take: pointers and numbers, the same for every instruction
// set.
#pragma once

#include <cstdint>

#include "framework/nn/kernels/matrix.h"

namespace attnlab {

/// Columns of outputs that are summed up at once: 128 bytes of them, whole vectors of every
/// instruction set.
template <class T>
inline constexpr std::int64_t kPanel = 2 * kPadding<T>;

/// One place of the kernel in one block of rows, one panel of columns.
template <class T>
struct Piece {
  const T* x;  ///< rows of `in` numbers
  std::int64_t in;
  const T* weight;  ///< [in, kPanel]
  const std::int32_t *inputs, *outputs;
  std::int64_t pairs;
  T* sums;             ///< [block of rows, kPanel]
  std::int64_t first;  ///< the block's first row
};

/// dW of one place and one panel of outputs, the pairs of one block.
template <class T>
struct Outer {
  const T* x;
  std::int64_t in;
  const T* dy;  ///< rows of `out` numbers, at the panel
  std::int64_t out;
  const std::int32_t *inputs, *outputs;
  std::int64_t pairs;
  T* sums;  ///< [in, kPanel]
};

}  // namespace attnlab
