// Matrices of a few thousand numbers, multiplied where they lie in cache.
//
//   C = A B,   a tile of up to 6 rows and one vector of columns at a time, sums in registers
//
// A library's product costs microseconds before it begins; here it costs a loop. Rows of B are
// padded to whole vectors, so that loops have no remainders; `pack` and `pack_transposed` bring any
// layout to that form. Everything is inlined into the caller, which chooses the instruction set:
// see framework/base/vector_clones.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "framework/nn/kernels/unit_row.h"

namespace attnlab::small {

/// 64 bytes of numbers: one register, or several where registers are shorter. At any address.
template <class T>
struct Lanes;
template <>
struct Lanes<float> {
  using Vector [[gnu::vector_size(64), gnu::aligned(4), gnu::may_alias]] = float;
  using Quad [[gnu::vector_size(16), gnu::aligned(4), gnu::may_alias]] = float;
  using Integer = std::int32_t;
  using Integers [[gnu::vector_size(64)]] = Integer;
};
template <>
struct Lanes<double> {
  using Vector [[gnu::vector_size(64), gnu::aligned(8), gnu::may_alias]] = double;
  using Quad [[gnu::vector_size(32), gnu::aligned(8), gnu::may_alias]] = double;
  using Integer = std::int64_t;
  using Integers [[gnu::vector_size(64)]] = Integer;
};
template <class T>
using Vector = typename Lanes<T>::Vector;
template <class T>
inline constexpr std::int64_t kLanes = 64 / sizeof(T);

/// `count` rounded up to whole vectors.
template <class T>
constexpr std::int64_t padded(std::int64_t count) {
  return (count + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
}

/// The vector that begins at p.
template <class T>
[[gnu::always_inline]] inline Vector<T>& vector_at(T* p) {
  return *reinterpret_cast<Vector<T>*>(p);
}
template <class T>
[[gnu::always_inline]] inline const Vector<T>& vector_at(const T* p) {
  return *reinterpret_cast<const Vector<T>*>(p);
}

/// A matrix of any layout: number (i, j) is data[i * row + j * column].
template <class T>
struct Matrix {
  T* data;
  std::int64_t row, column = 1;

  [[gnu::always_inline]] T* at(std::int64_t i, std::int64_t j) const {
    return data + i * row + j * column;
  }
  Matrix transposed() const { return {data, column, row}; }
  Matrix<const T> fixed() const { return {data, row, column}; }
};

template <class T>
[[gnu::always_inline]] inline T sum_of_lanes(const Vector<T>& x) {
  T numbers[kLanes<T>];
  vector_at(numbers) = x;
  return rows::sum_of<kLanes<T>>(numbers);
}

/// Rows [i, i + rows) and the vector of columns from j on. @param columns  of C
/// @param whole  whether rows of C have room for whole vectors.
template <int rows, class T>
[[gnu::always_inline]] inline void multiply_tile(Matrix<const T> a, Matrix<const T> b, Matrix<T> c,
                                                 std::int64_t depth, std::int64_t i, std::int64_t j,
                                                 std::int64_t columns, bool whole) {
  Vector<T> sums[rows];
  for (int r = 0; r < rows; ++r) sums[r] = Vector<T>{};
  for (std::int64_t k = 0; k < depth; ++k) {
    const Vector<T> x = vector_at(b.data + k * b.row + j);
    for (int r = 0; r < rows; ++r) sums[r] += *a.at(i + r, k) * x;
  }
  for (int r = 0; r < rows; ++r) {
    T* to = c.data + (i + r) * c.row + j;
    if (whole || j + kLanes<T> <= columns) {
      vector_at(to) = sums[r];
    } else {
      T numbers[kLanes<T>];
      vector_at(numbers) = sums[r];
      for (std::int64_t l = 0; j + l < columns; ++l) to[l] = numbers[l];
    }
  }
}

/// C = A B.
/// @param a  [rows, depth], any layout
/// @param b  [depth, columns], rows padded
/// @param c  [rows, columns], not a or b; numbers of a row are neighbours
/// @param whole  whether rows of C are padded, too (what B's padding gives is written there).
template <class T>
[[gnu::always_inline]] inline void multiply(Matrix<const T> a, Matrix<const T> b, Matrix<T> c,
                                            std::int64_t rows, std::int64_t depth,
                                            std::int64_t columns, bool whole) {
  for (std::int64_t j = 0; j < columns; j += kLanes<T>) {
    std::int64_t i = 0;
    for (; i + 6 <= rows; i += 6) multiply_tile<6>(a, b, c, depth, i, j, columns, whole);
    if (i + 4 <= rows) {
      multiply_tile<4>(a, b, c, depth, i, j, columns, whole);
      i += 4;
    }
    if (i + 2 <= rows) {
      multiply_tile<2>(a, b, c, depth, i, j, columns, whole);
      i += 2;
    }
    if (i < rows) multiply_tile<1>(a, b, c, depth, i, j, columns, whole);
  }
}

/// Asks for a row before it is needed: rows of a head lie apart, so that the processor does not see
/// them coming.
template <class T>
[[gnu::always_inline]] inline void fetch_row(Matrix<const T> x, std::int64_t i,
                                             std::int64_t columns) {
  if (x.column != 1) return;
  for (std::int64_t j = 0; j < columns; j += kLanes<T>) __builtin_prefetch(x.at(i, j));
}

/// y = x, padded with zeros; row i times factors[i], where there are factors (not null).
/// @param x  [rows, columns] of any layout
template <class T>
[[gnu::always_inline]] inline void pack(Matrix<const T> x, Matrix<T> y, std::int64_t rows,
                                        std::int64_t columns, const T* factors = nullptr) {
  constexpr std::int64_t kAhead = 8;
  for (std::int64_t i = 0; i < rows; ++i) {
    if (i + kAhead < rows) fetch_row(x, i + kAhead, columns);
    const T factor = factors != nullptr ? factors[i] : T(1);
    T* to = y.data + i * y.row;
    std::int64_t j = 0;
    if (x.column == 1) {
      const T* from = x.at(i, 0);
      for (; j + kLanes<T> <= columns; j += kLanes<T>) {
        vector_at(to + j) = vector_at(from + j) * factor;
      }
    }
    for (; j < columns; ++j) to[j] = *x.at(i, j) * factor;
    for (; j < padded<T>(columns); ++j) to[j] = 0;
  }
}

/// Four rows of four numbers, transposed.
template <class T>
[[gnu::always_inline]] inline void transpose_block(const T* x, std::int64_t x_row, T* y,
                                                   std::int64_t y_row) {
  using Quad = typename Lanes<T>::Quad;
  const Quad a = *reinterpret_cast<const Quad*>(x);
  const Quad b = *reinterpret_cast<const Quad*>(x + x_row);
  const Quad c = *reinterpret_cast<const Quad*>(x + 2 * x_row);
  const Quad d = *reinterpret_cast<const Quad*>(x + 3 * x_row);
  const Quad ac = __builtin_shufflevector(a, c, 0, 4, 1, 5);
  const Quad bd = __builtin_shufflevector(b, d, 0, 4, 1, 5);
  const Quad ca = __builtin_shufflevector(a, c, 2, 6, 3, 7);
  const Quad db = __builtin_shufflevector(b, d, 2, 6, 3, 7);
  *reinterpret_cast<Quad*>(y) = __builtin_shufflevector(ac, bd, 0, 4, 1, 5);
  *reinterpret_cast<Quad*>(y + y_row) = __builtin_shufflevector(ac, bd, 2, 6, 3, 7);
  *reinterpret_cast<Quad*>(y + 2 * y_row) = __builtin_shufflevector(ca, db, 0, 4, 1, 5);
  *reinterpret_cast<Quad*>(y + 3 * y_row) = __builtin_shufflevector(ca, db, 2, 6, 3, 7);
}

/// y = x^T, padded with zeros. @param x  [rows, columns] of any layout @param y  [columns, rows]
template <class T>
[[gnu::always_inline]] inline void pack_transposed(Matrix<const T> x, Matrix<T> y,
                                                   std::int64_t rows, std::int64_t columns) {
  const std::int64_t quads = x.column == 1 ? columns / 4 * 4 : 0;
  std::int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    for (std::int64_t r = i + 8; r < i + 12 && r < rows; ++r) fetch_row(x, r, columns);
    for (std::int64_t j = 0; j < quads; j += 4) {
      transpose_block(x.at(i, j), x.row, y.data + j * y.row + i, y.row);
    }
    for (std::int64_t j = quads; j < columns; ++j) {
      for (std::int64_t r = i; r < i + 4; ++r) y.data[j * y.row + r] = *x.at(r, j);
    }
  }
  for (std::int64_t j = 0; j < columns; ++j) {
    T* to = y.data + j * y.row;
    for (std::int64_t r = i; r < rows; ++r) to[r] = *x.at(r, j);
    for (std::int64_t r = rows; r < padded<T>(rows); ++r) to[r] = 0;
  }
}

/// e^x for x <= 0, to about one unit in the last place; 0 below the smallest normal number.
[[gnu::always_inline]] inline void exponentiate(Vector<float>& x) {
  using Integers = Lanes<float>::Integers;
  constexpr float kRounder = 12582912.f;  // 1.5 * 2^23: adding it rounds to an integer
  const Vector<float> shifted = x * 1.44269504088896341f + kRounder;
  const Vector<float> n = shifted - kRounder;
  const Vector<float> r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Vector<float> y = 1.9875691500e-4f * r + 1.3981999507e-3f;  // Cephes' expf
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  y = y * (r * r) + r + 1.f;
  // 2^n: the integer lies in the low bits of the shifted number.
  const Integers bits = (reinterpret_cast<Integers>(shifted) + (127 - 0x4b400000))
                        << 23;  // 0x4b400000: kRounder
  y *= reinterpret_cast<Vector<float>>(bits);
  x = x < -87.3f ? Vector<float>{} : y;
}

[[gnu::always_inline]] inline void exponentiate(Vector<double>& x) {
  for (int j = 0; j < kLanes<double>; ++j) x[j] = std::exp(x[j]);
}

/// x, and the lowest number in the lanes from `count` on.
template <class T>
[[gnu::always_inline]] inline void hide_lanes(Vector<T>& x, std::int64_t count) {
  typename Lanes<T>::Integers place;
  for (int j = 0; j < kLanes<T>; ++j) place[j] = j;
  const Vector<T> low = Vector<T>{} + std::numeric_limits<T>::lowest();
  x = place < static_cast<typename Lanes<T>::Integer>(count) ? x : low;
}

/// Softmax of a padded row, in place; its padding becomes 0. Hidden numbers hold the lowest one; at
/// least one must not.
template <class T>
[[gnu::always_inline]] inline void softmax_row(T* row, std::int64_t count) {
  constexpr T kLowest = std::numeric_limits<T>::lowest();
  Vector<T> tops = Vector<T>{} + kLowest;
  for (std::int64_t j = 0; j < count; j += kLanes<T>) {
    if (j + kLanes < T >> count) hide_lanes<T>(vector_at(row + j), count - j);
    const Vector<T> x = vector_at(row + j);
    tops = x > tops ? x : tops;
  }
  T numbers[kLanes<T>];
  vector_at(numbers) = tops;
  T top = numbers[0];
  for (const T number : numbers) top = number > top ? number : top;
  Vector<T> sums = Vector<T>{};
  for (std::int64_t j = 0; j < count; j += kLanes<T>) {
    Vector<T> x = vector_at(row + j) - top;
    exponentiate(x);
    sums += x;
    vector_at(row + j) = x;
  }
  const T factor = 1 / sum_of_lanes<T>(sums);
  for (std::int64_t j = 0; j < count; j += kLanes<T>) vector_at(row + j) *= factor;
}

/// dL = scale * P (dP - <dP, P>), of padded rows; dL in place of dP.
template <class T>
[[gnu::always_inline]] inline void softmax_gradient_row(const T* p, T* dp, std::int64_t count,
                                                        T scale) {
  Vector<T> sums = Vector<T>{};
  for (std::int64_t j = 0; j < count; j += kLanes<T>) sums += vector_at(p + j) * vector_at(dp + j);
  const T along = sum_of_lanes<T>(sums);
  for (std::int64_t j = 0; j < count; j += kLanes<T>) {
    vector_at(dp + j) = vector_at(p + j) * (vector_at(dp + j) - along) * scale;
  }
}

}  // namespace attnlab::small
