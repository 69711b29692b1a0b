// Products of matrices that lie in cache: C = A B, or C += A B.
//
// B is brought to panels first: kWide (two vectors of) columns side by side, depth after depth, so
// that a tile walks one stream of neighbouring numbers whatever B's layout was, and no distance
// between rows can make lines of the cache collide. A tile holds its sums in registers: as many
// rows as the instruction set has room for. A is read number by number, in any layout.
// Against a library's product: no price of a call, and the packing of B is shared by many products.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "framework/nn/kernels/matrix.h"
#include "framework/nn/kernels/vectors-inl.h"

#if defined(ATTNLAB_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTNLAB_PRODUCT_INL_H_
#undef ATTNLAB_PRODUCT_INL_H_
#else
#define ATTNLAB_PRODUCT_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

/// Rows of a tile of two vectors: 2 kTileRows sums, two vectors of B and one number of A stay
/// within 32 registers, or 16.
#if HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr int kTileRows = 12;
#else
inline constexpr int kTileRows = 6;
#endif

/// Columns of a panel. The last panel has one vector where one is enough.
template <class T>
inline constexpr std::int64_t kWide = 2 * kLanes<T>;

/// B [depth, columns] in panels: number (k, j) of panel p is first[(p * depth + k) * width + j],
/// where width is kWide but in a narrow last panel.
template <class T>
struct Panels {
  static constexpr std::int64_t kStep = 1;  ///< what the first row is a multiple of

  T* data;
  std::int64_t depth;    ///< rows of B
  std::int64_t row = 0;  ///< the first row that counts

  /// @param column  the panel's first @param width  of the panel
  HWY_INLINE T* at(std::int64_t column, std::int64_t width) const {
    return data + column * depth + row * width;
  }
  HWY_INLINE Panels from_row(std::int64_t k) const { return {data, depth, row + k}; }
  /// @param j  a multiple of kWide
  HWY_INLINE Panels from_column(std::int64_t j) const { return {data + j * depth, depth, row}; }
  HWY_INLINE Panels<const T> fixed() const { return {data, depth, row}; }
};

/// Room for panels P of factors.
template <class P, class T>
HWY_INLINE P panels(Scratch<T>& room, std::int64_t depth, std::int64_t columns) {
  return {reinterpret_cast<decltype(P::data)>(room.take(panel_room<T>(depth, columns))), depth};
}

/// The width of the panel that begins `left` columns before the end.
template <class T>
constexpr std::int64_t panel_width(std::int64_t left) {
  return left > kLanes<T> ? kWide<T> : kLanes<T>;
}

/// Columns of a tile of C: all of its vectors, or the first `left`.
template <class T, int vectors>
struct Columns {
  std::int64_t left;
  bool full;

  HWY_INLINE Vec<T> load_from(const T* row, int v) const {
    const T* from = row + v * kLanes<T>;
    return full || left >= (v + 1) * kLanes<T> ? load(from, Whole())
                                               : load(from, Part{left - v * kLanes<T>});
  }
  HWY_INLINE void store_to(Vec<T> x, T* row, int v) const {
    T* to = row + v * kLanes<T>;
    if (full || left >= (v + 1) * kLanes<T>) {
      store<T>(x, to, Whole());
    } else {
      store<T>(x, to, Part{left - v * kLanes<T>});
    }
  }
};

/// @param b  a panel of `vectors` vectors @param add  to what stands in C
template <class T, int rows, int vectors, bool add>
HWY_INLINE void multiply_tile(Matrix<const T> a, const T* b, std::int64_t depth, Matrix<T> c,
                              Columns<T, vectors> columns) {
  constexpr std::int64_t N = kLanes<T>;
  Vec<T> sums[rows][vectors];
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      sums[r][v] = add ? columns.load_from(c.data + r * c.row, v) : zeros<T>();
    }
  }
  // Three rows a pointer: a register each would be more than there are.
  constexpr int kGroups = (rows + 2) / 3;
  const T* group[kGroups];
  for (int g = 0; g < kGroups; ++g) group[g] = a.data + 3 * g * a.row;
  for (std::int64_t k = 0; k < depth; ++k) {
    Vec<T> x[vectors];
    for (int v = 0; v < vectors; ++v) x[v] = load(b + v * N, Whole());
    b += vectors * N;
    for (int r = 0; r < rows; ++r) {
      const Vec<T> factor = all(group[r / 3][r % 3 * a.row]);
      for (int v = 0; v < vectors; ++v) sums[r][v] = hn::MulAdd(factor, x[v], sums[r][v]);
    }
    for (int g = 0; g < kGroups; ++g) group[g] += a.column;
  }
  if (columns.full) {  // asked once, not for each vector
    for (int r = 0; r < rows; ++r) {
      for (int v = 0; v < vectors; ++v) {
        store<T>(sums[r][v], c.data + r * c.row + v * N, Whole());
      }
    }
    return;
  }
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) columns.store_to(sums[r][v], c.data + r * c.row, v);
  }
}

/// All rows of one panel's columns.
template <class T, int vectors, bool add>
HWY_NOINLINE void multiply_panel(Matrix<const T> a, const T* b, Matrix<T> c, std::int64_t rows,
                                 std::int64_t depth, Columns<T, vectors> columns) {
  const auto tile = [&](auto count) HWY_ATTR {
    constexpr int kRows = decltype(count)::value;
    multiply_tile<T, kRows, vectors, add>(a, b, depth, c, columns);
    a.data += kRows * a.row, c.data += kRows * c.row, rows -= kRows;
  };
  while (rows >= kTileRows) tile(std::integral_constant<int, kTileRows>());
  if constexpr (kTileRows > 6) {
    if (rows >= 6) tile(std::integral_constant<int, 6>());
  }
  switch (rows) {
    case 5:
      return tile(std::integral_constant<int, 5>());
    case 4:
      return tile(std::integral_constant<int, 4>());
    case 3:
      return tile(std::integral_constant<int, 3>());
    case 2:
      return tile(std::integral_constant<int, 2>());
    case 1:
      return tile(std::integral_constant<int, 1>());
    default:
      return;
  }
}

/// C = A B; C += A B where `add`.
/// @param a      [rows, depth], any layout
/// @param b      [depth, columns]
/// @param c      [rows, columns], neither a nor b; numbers of a row are neighbours
/// @param whole  whether rows of C have room for whole vectors (what B's padding gives is written)
template <class T, bool add = false>
HWY_INLINE void multiply(Matrix<const T> a, Panels<const T> b, Matrix<T> c, std::int64_t rows,
                         std::int64_t depth, std::int64_t columns, bool whole) {
  for (std::int64_t j = 0; j < columns; j += kWide<T>) {
    const std::int64_t left = columns - j;
    const Matrix<T> to{c.data + j, c.row};
    if (panel_width<T>(left) == kWide<T>) {
      multiply_panel<T, 2, add>(a, b.at(j, kWide<T>), to, rows, depth,
                                {left, whole || left >= kWide<T>});
    } else {
      multiply_panel<T, 1, add>(a, b.at(j, kLanes<T>), to, rows, depth,
                                {left, whole || left >= kLanes<T>});
    }
  }
}

/// C += A B, of whole vectors.
template <class T>
HWY_INLINE void add_multiplied(Matrix<const T> a, Panels<const T> b, Matrix<T> c, std::int64_t rows,
                               std::int64_t depth, std::int64_t columns) {
  multiply<T, true>(a, b, c, rows, depth, columns, true);
}

/// Asks for a row before it is needed: rows of a head lie apart, so that the processor does not see
/// them coming.
template <class T>
HWY_INLINE void fetch_row(Matrix<const T> x, std::int64_t i, std::int64_t columns) {
  if (x.column != 1) return;
  for (std::int64_t j = 0; j < columns; j += kPadding<T>) hwy::Prefetch(x.at(i, j));
}

inline constexpr std::int64_t kRowsAhead = 8;

/// A panel of x, whose rows' numbers are neighbours. @param factors  of rows, or null
/// @param ahead  how much of rows is asked for before they are needed
template <class T, int vectors>
HWY_INLINE void pack_panel(Matrix<const T> x, T* to, std::int64_t rows, const T* factors,
                           std::int64_t ahead, Columns<T, vectors> columns) {
  for (std::int64_t i = 0; i < rows; ++i, to += vectors * kLanes<T>) {
    if (ahead > 0 && i + kRowsAhead < rows) fetch_row(x, i + kRowsAhead, ahead);
    for (int v = 0; v < vectors; ++v) {
      Vec<T> numbers = columns.load_from(x.data + i * x.row, v);
      if (factors != nullptr) numbers = hn::Mul(numbers, all(factors[i]));
      store<T>(numbers, to + v * kLanes<T>, Whole());
    }
  }
}

/// Panels of x [rows, columns], any layout, padded with zeros; row i times factors[i], where there
/// are factors (not null).
template <class T>
HWY_NOINLINE void pack(Matrix<const T> x, Panels<T> y, std::int64_t rows, std::int64_t columns,
                       const T* factors = nullptr) {
  for (std::int64_t j = 0; j < columns; j += kWide<T>) {
    const std::int64_t left = columns - j, width = panel_width<T>(left);
    const std::int64_t ahead = j == 0 ? columns : 0;
    const Matrix<const T> from{x.at(0, j), x.row, x.column};
    T* const to = y.at(j, width);
    if (x.column == 1 && width == kWide<T>) {
      pack_panel<T, 2>(from, to, rows, factors, ahead, {left, left >= width});
    } else if (x.column == 1) {
      pack_panel<T, 1>(from, to, rows, factors, ahead, {left, left >= width});
    } else {
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t l = 0; l < width; ++l) {
          const T factor = factors != nullptr ? factors[i] : T(1);
          to[i * width + l] = l < left ? *from.at(i, l) * factor : T(0);
        }
      }
    }
  }
}

/// Four rows of x^T's columns, or zeros: number k of row r stands at from[r] + k * step[r].
template <class T>
struct FourRows {
  const T* from[4];
  std::int64_t step[4];
};

/// Rows [first, first + 4) of x; those from `past` on are zeros.
template <class T>
HWY_INLINE FourRows<T> four_rows(Matrix<const T> x, std::int64_t first, std::int64_t past) {
  static constexpr T kZeros[4] = {};
  FourRows<T> rows;
  for (int r = 0; r < 4; ++r) {
    const bool is = first + r < past;
    rows.from[r] = is ? x.at(first + r, 0) : kZeros;
    rows.step[r] = is ? x.column : 0;
  }
  return rows;
}

/// Numbers [k, k + 4) of four dense rows, transposed, times a factor.
template <class T>
HWY_INLINE void transpose_block(const FourRows<T>& x, std::int64_t k, T* y, std::int64_t y_row,
                                T factor) {
  for (int r = 0; r < 4; ++r) {
    const T* from = x.from[r] + k * x.step[r];
    for (int j = 0; j < 4; ++j) y[j * y_row + r] = from[j] * factor;
  }
}

#if HWY_TARGET != HWY_SCALAR
/// Four vectors of four numbers of 32 bits, as the rows of a matrix.
template <class D>
HWY_INLINE void transpose(D d, hn::Vec<D> (&x)[4]) {
  const hn::Repartition<double, D> pairs;
  const auto ab = hn::BitCast(pairs, hn::InterleaveLower(d, x[0], x[1]));
  const auto ce = hn::BitCast(pairs, hn::InterleaveLower(d, x[2], x[3]));
  const auto upper_ab = hn::BitCast(pairs, hn::InterleaveUpper(d, x[0], x[1]));
  const auto upper_ce = hn::BitCast(pairs, hn::InterleaveUpper(d, x[2], x[3]));
  x[0] = hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce));
  x[1] = hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce));
  x[2] = hn::BitCast(d, hn::InterleaveLower(pairs, upper_ab, upper_ce));
  x[3] = hn::BitCast(d, hn::InterleaveUpper(pairs, upper_ab, upper_ce));
}

HWY_INLINE void transpose_block(const FourRows<float>& x, std::int64_t k, float* y,
                                std::int64_t y_row, float factor) {
  const hn::FixedTag<float, 4> d;
  hn::Vec<decltype(d)> quad[4];
  for (int r = 0; r < 4; ++r) quad[r] = hn::LoadU(d, x.from[r] + k * x.step[r]);
  transpose(d, quad);
  const auto by = hn::Set(d, factor);
  for (int i = 0; i < 4; ++i) hn::StoreU(hn::Mul(quad[i], by), d, y + i * y_row);
}
#endif

/// Panels of factor x^T, padded with zeros. @param x  [columns, depth] of any layout
template <class T>
HWY_NOINLINE void pack_transposed(Matrix<const T> x, Panels<T> y, std::int64_t depth,
                                  std::int64_t columns, T factor = 1) {
  const std::int64_t quads = x.column == 1 ? depth / 4 * 4 : 0;
  for (std::int64_t first = 0; first < columns; first += kWide<T>) {
    const std::int64_t width = panel_width<T>(columns - first);
    T* const panel = y.at(first, width);
    const std::int64_t quartets = kLanes<T> >= 4 ? width / 4 * 4 : 0;
    for (std::int64_t i = 0; i < quartets; i += 4) {
      for (std::int64_t r = first + i + kRowsAhead; r < first + i + kRowsAhead + 4; ++r) {
        if (r < columns) fetch_row(x, r, depth);
      }
      const FourRows<T> rows = four_rows(x, first + i, columns);
      std::int64_t k = 0;
      for (; k < quads; k += 4) transpose_block(rows, k, panel + k * width + i, width, factor);
      for (; k < depth; ++k) {
        for (int r = 0; r < 4; ++r) {
          panel[k * width + i + r] = rows.from[r][k * rows.step[r]] * factor;
        }
      }
    }
    for (std::int64_t i = quartets; i < width; ++i) {  // of vectors of less than four numbers
      for (std::int64_t k = 0; k < depth; ++k) {
        panel[k * width + i] = first + i < columns ? *x.at(first + i, k) * factor : T(0);
      }
    }
  }
}

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
