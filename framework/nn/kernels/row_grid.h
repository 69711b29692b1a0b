// Rows of [A, B, L, D] in any order of memory, and of a second such tensor.
#pragma once

#include <array>
#include <cstdint>

namespace attnlab {

/// Rows [begin, end).
struct RowRange {
  std::int64_t begin, end;
};

template <class T>
struct RowGrid {
  const T *x, *other;
  std::array<std::int64_t, 3> x_steps, other_steps;  ///< strides of A, B and L
  std::int64_t inner, length, dim;                   ///< B, L, D

  /// Calls work(row of x, row of other, number of the row) for a range of the A B L rows.
  template <class Work>
  [[gnu::always_inline]] void each(RowRange range, const Work& work) const {
    // Counted, not divided for: three divisions would take as long as a short row itself.
    std::int64_t l = range.begin % length, b = range.begin / length % inner;
    std::int64_t a = range.begin / length / inner;
    for (std::int64_t row = range.begin; row < range.end; ++row) {
      work(x + a * x_steps[0] + b * x_steps[1] + l * x_steps[2],
           other + a * other_steps[0] + b * other_steps[1] + l * other_steps[2], row);
      if (++l < length) continue;
      l = 0;
      if (++b < inner) continue;
      b = 0, ++a;
    }
  }
};

}  // namespace attnlab
