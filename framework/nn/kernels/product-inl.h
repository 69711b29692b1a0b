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

/// The width of the panel that begins `left` columns before the end.
template <class T>
constexpr std::int64_t panel_width(std::int64_t left) {
  return left > kLanes<T> ? kWide<T> : kLanes<T>;
}

/// Where C's numbers go: `left` columns, or whole vectors where `whole`; what stands there is
/// added where `add`.
struct Target {
  std::int64_t left;
  bool whole, add;
};

template <class T, int rows, int vectors>
HWY_INLINE void multiply_tile(const T* a, std::int64_t a_row, std::int64_t a_column, const T* b,
                              std::int64_t depth, T* c, std::int64_t c_row, Target to) {
  constexpr std::int64_t N = kLanes<T>;
  Vec<T> sums[rows][vectors];
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      const T* from = c + r * c_row + v * N;
      if (!to.add) {
        sums[r][v] = zeros<T>();
      } else if (to.whole || to.left >= (v + 1) * N) {
        sums[r][v] = load(from, Whole());
      } else {
        sums[r][v] = load(from, Part{to.left - v * N});
      }
    }
  }
  // Three rows a pointer: a register each would be more than there are.
  constexpr int kGroups = (rows + 2) / 3;
  const T* group[kGroups];
  for (int g = 0; g < kGroups; ++g) group[g] = a + 3 * g * a_row;
  for (std::int64_t k = 0; k < depth; ++k) {
    Vec<T> x[vectors];
    for (int v = 0; v < vectors; ++v) x[v] = load(b + v * N, Whole());
    b += vectors * N;
    for (int r = 0; r < rows; ++r) {
      const Vec<T> factor = all(group[r / 3][r % 3 * a_row]);
      for (int v = 0; v < vectors; ++v) sums[r][v] = hn::MulAdd(factor, x[v], sums[r][v]);
    }
    for (int g = 0; g < kGroups; ++g) group[g] += a_column;
  }
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      T* at = c + r * c_row + v * N;
      if (to.whole || to.left >= (v + 1) * N) {
        store<T>(sums[r][v], at, Whole());
      } else {
        store<T>(sums[r][v], at, Part{to.left - v * N});
      }
    }
  }
}

/// All rows of one panel's columns.
template <class T, int vectors>
HWY_NOINLINE void multiply_panel(Matrix<const T> a, const T* b, Matrix<T> c, std::int64_t rows,
                                 std::int64_t depth, Target to) {
  std::int64_t i = 0;
  const auto tile = [&](auto count) HWY_ATTR {
    constexpr int kRows = decltype(count)::value;
    multiply_tile<T, kRows, vectors>(a.at(i, 0), a.row, a.column, b, depth, c.at(i, 0), c.row, to);
    i += kRows;
  };
  while (i + kTileRows <= rows) tile(std::integral_constant<int, kTileRows>());
  if constexpr (kTileRows > 6) {
    if (i + 6 <= rows) tile(std::integral_constant<int, 6>());
  }
  if (i + 4 <= rows) tile(std::integral_constant<int, 4>());
  if (i + 2 <= rows) tile(std::integral_constant<int, 2>());
  if (i < rows) tile(std::integral_constant<int, 1>());
}

/// C = A B, or C += A B.
/// @param a      [rows, depth], any layout
/// @param b      [depth, columns]
/// @param c      [rows, columns], neither a nor b; numbers of a row are neighbours
/// @param whole  whether rows of C have room for whole vectors (what B's padding gives is written)
template <class T>
HWY_INLINE void multiply(Matrix<const T> a, Panels<const T> b, Matrix<T> c, std::int64_t rows,
                         std::int64_t depth, std::int64_t columns, bool whole, bool add = false) {
  for (std::int64_t j = 0; j < columns; j += kWide<T>) {
    const std::int64_t left = columns - j;
    const Matrix<T> to{c.data + j, c.row};
    if (panel_width<T>(left) == kWide<T>) {
      multiply_panel<T, 2>(a, b.at(j, kWide<T>), to, rows, depth, {left, whole, add});
    } else {
      multiply_panel<T, 1>(a, b.at(j, kLanes<T>), to, rows, depth, {left, whole, add});
    }
  }
}

/// Asks for a row before it is needed: rows of a head lie apart, so that the processor does not see
/// them coming.
template <class T>
HWY_INLINE void fetch_row(Matrix<const T> x, std::int64_t i, std::int64_t columns) {
  if (x.column != 1) return;
  for (std::int64_t j = 0; j < columns; j += kPadding<T>) hwy::Prefetch(x.at(i, j));
}

inline constexpr std::int64_t kRowsAhead = 8;

/// Panels of x [rows, columns], any layout, padded with zeros; row i times factors[i], where there
/// are factors (not null).
template <class T>
HWY_NOINLINE void pack(Matrix<const T> x, Panels<T> y, std::int64_t rows, std::int64_t columns,
                       const T* factors = nullptr) {
  for (std::int64_t i = 0; i < rows; ++i) {
    if (i + kRowsAhead < rows) fetch_row(x, i + kRowsAhead, columns);
    const T factor = factors != nullptr ? factors[i] : T(1);
    for (std::int64_t j = 0; j < columns; j += kWide<T>) {
      const std::int64_t width = panel_width<T>(columns - j), filled = std::min(width, columns - j);
      T* to = y.at(j, width) + i * width;
      if (x.column == 1) {
        const T* from = x.at(i, j);
        for (std::int64_t v = 0; v < width; v += kLanes<T>) {
          const std::int64_t left = filled - v;
          const Vec<T> numbers =
              left >= kLanes<T> ? load(from + v, Whole()) : load(from + v, Part{left});
          store<T>(hn::Mul(numbers, all(factor)), to + v, Whole());
        }
      } else {
        for (std::int64_t l = 0; l < filled; ++l) to[l] = *x.at(i, j + l) * factor;
        std::fill(to + filled, to + width, T(0));
      }
    }
  }
}

/// Four rows of four numbers, transposed, times a factor.
template <class T>
HWY_INLINE void transpose_block(const T* x, std::int64_t x_row, T* y, std::int64_t y_row,
                                T factor) {
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) y[j * y_row + i] = x[i * x_row + j] * factor;
  }
}

#if HWY_TARGET != HWY_SCALAR
HWY_INLINE void transpose_block(const float* x, std::int64_t x_row, float* y, std::int64_t y_row,
                                float factor) {
  const hn::FixedTag<float, 4> d;
  const hn::Repartition<double, decltype(d)> pairs;
  using Quad = hn::Vec<decltype(d)>;
  const Quad a = hn::LoadU(d, x), b = hn::LoadU(d, x + x_row);
  const Quad c = hn::LoadU(d, x + 2 * x_row), e = hn::LoadU(d, x + 3 * x_row);
  const auto ab = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
  const auto ce = hn::BitCast(pairs, hn::InterleaveLower(d, c, e));
  const auto upper_ab = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
  const auto upper_ce = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
  const Quad by = hn::Set(d, factor);
  const Quad rows[] = {hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce)),
                       hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce)),
                       hn::BitCast(d, hn::InterleaveLower(pairs, upper_ab, upper_ce)),
                       hn::BitCast(d, hn::InterleaveUpper(pairs, upper_ab, upper_ce))};
  for (int i = 0; i < 4; ++i) hn::StoreU(hn::Mul(rows[i], by), d, y + i * y_row);
}
#endif

/// Panels of factor x^T, padded with zeros. @param x  [columns, depth] of any layout
template <class T>
HWY_NOINLINE void pack_transposed(Matrix<const T> x, Panels<T> y, std::int64_t depth,
                                  std::int64_t columns, T factor = 1) {
  const std::int64_t quads = x.column == 1 ? depth / 4 * 4 : 0;
  for (std::int64_t first = 0; first < columns; first += kWide<T>) {
    const std::int64_t width = panel_width<T>(columns - first);
    const std::int64_t filled = std::min(width, columns - first);
    T* const panel = y.at(first, width);
    std::int64_t i = 0;
    for (; i + 4 <= filled; i += 4) {
      for (std::int64_t r = first + i + kRowsAhead; r < first + i + kRowsAhead + 4; ++r) {
        if (r < columns) fetch_row(x, r, depth);
      }
      for (std::int64_t k = 0; k < quads; k += 4) {
        transpose_block(x.at(first + i, k), x.row, panel + k * width + i, width, factor);
      }
      for (std::int64_t k = quads; k < depth; ++k) {
        for (int r = 0; r < 4; ++r) panel[k * width + i + r] = *x.at(first + i + r, k) * factor;
      }
    }
    for (std::int64_t k = 0; k < depth; ++k) {
      T* to = panel + k * width;
      for (std::int64_t r = i; r < filled; ++r) to[r] = *x.at(first + r, k) * factor;
      std::fill(to + std::max(i, filled), to + width, T(0));
    }
  }
}

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
