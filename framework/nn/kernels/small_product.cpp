// Products of small matrices: see the header.
//
// A tile of rows and two vectors of columns gathers its sums in registers while it walks down the
// depth; the last vector of columns may be a part.
#include "framework/nn/kernels/small_product.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/nn/kernels/small_product.cpp"
#include "framework/nn/kernels/dispatch-inl.h"
// (Above: before the vectors.)
#include "framework/nn/kernels/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

/// How much of the depth is walked at once: rows of A and B of this many steps stay in the first
/// level of cache while all tiles pass over them.
inline constexpr std::int64_t kDepthBlock = 64;

/// Where a tile stands: rows of C from `row` on, and what part of the depth it takes.
struct TilePlace {
  std::int64_t row, place;  ///< place: row % places
  std::int64_t begin, end;
  std::int64_t column = 0;
};

/// What row r of a tile starts from; there must be something.
HWY_INLINE const float* start_of(const SmallProduct& p, const TilePlace& at, std::int64_t r) {
  if (at.begin > 0 || p.add) return p.c + (at.row + r) * p.columns;
  std::int64_t place = at.place + r;
  while (place >= p.places) place -= p.places;
  return p.start + place * p.start_step;
}

/// Columns [column, column + vectors * lanes); of the last vector what `tail` says.
template <int rows, int vectors, class Tail>
HWY_INLINE void tile(const SmallProduct& p, const TilePlace& at, Tail tail) {
  constexpr std::int64_t N = kLanes<float>;
  constexpr int kLast = vectors - 1;
  float* const c = p.c + at.row * p.columns + at.column;
  Vec<float> sums[rows][vectors];
  if (at.begin == 0 && !p.add && p.start == nullptr) {  // asked once, not for each row
    for (int r = 0; r < rows; ++r) {
      for (int v = 0; v < vectors; ++v) sums[r][v] = zeros<float>();
    }
  } else {
    HWY_UNROLL(12)
    for (int r = 0; r < rows; ++r) {
      const float* const from = start_of(p, at, r) + at.column;
      for (int v = 0; v < kLast; ++v) sums[r][v] = load(from + v * N, Whole());
      sums[r][kLast] = load(from + kLast * N, tail);
    }
  }
  constexpr int kGroups = (rows + 2) / 3;  // three rows a pointer, as in product-inl.h
  const float* group[kGroups];
  for (int g = 0; g < kGroups; ++g) {
    group[g] = p.a.first + (at.row + 3 * g) * p.a.row_step + at.begin * p.a.column_step;
  }
  for (std::int64_t k = at.begin; k < at.end; ++k) {
    const float* b = p.b + k * p.columns + at.column;
    Vec<float> x[vectors];
    for (int v = 0; v < kLast; ++v) x[v] = load(b + v * N, Whole());
    x[kLast] = load(b + kLast * N, tail);
    for (int r = 0; r < rows; ++r) {
      const Vec<float> factor = all(group[r / 3][r % 3 * p.a.row_step]);
      for (int v = 0; v < vectors; ++v) sums[r][v] = hn::MulAdd(factor, x[v], sums[r][v]);
    }
    for (int g = 0; g < kGroups; ++g) group[g] += p.a.column_step;
  }
  HWY_UNROLL(12)
  for (int r = 0; r < rows; ++r) {
    float* const to = c + r * p.columns;
    for (int v = 0; v < kLast; ++v) store<float>(sums[r][v], to + v * N, Whole());
    store<float>(sums[r][kLast], to + kLast * N, tail);
  }
}

template <int rows>
HWY_NOINLINE void band(const SmallProduct& p, TilePlace at) {
  constexpr std::int64_t N = kLanes<float>;
  for (; at.column + 2 * N <= p.columns; at.column += 2 * N) tile<rows, 2>(p, at, Whole());
  const std::int64_t left = p.columns - at.column;
  if (left > N) {
    tile<rows, 2>(p, at, Part{left - N});
  } else if (left == N) {
    tile<rows, 1>(p, at, Whole());
  } else if (left > 0) {
    tile<rows, 1>(p, at, Part{left});
  }
}

/// As many bands of `rows` rows as there is room for.
template <int rows>
HWY_INLINE void bands(const SmallProduct& p, TilePlace& at) {
  while (at.row + rows <= p.rows) {
    band<rows>(p, at);
    at.row += rows;
    if (p.start != nullptr) at.place = (at.place + rows) % p.places;
  }
}

void multiply_small(const SmallProduct& p) {
  for (std::int64_t begin = 0; begin == 0 || begin < p.depth; begin += kDepthBlock) {
    TilePlace at{0, 0, begin, std::min(begin + kDepthBlock, p.depth)};
    bands<kTileRows>(p, at);
    if constexpr (kTileRows > 6) bands<6>(p, at);
    bands<4>(p, at);
    bands<2>(p, at);
    bands<1>(p, at);
  }
}

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnlab {

HWY_EXPORT(multiply_small);

void small_product(const SmallProduct& product) { ATTNLAB_DISPATCH(multiply_small)(product); }

void small_transpose(const float* b, std::int64_t rows, std::int64_t columns, float* out) {
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) out[j * rows + i] = b[i * columns + j];
  }
}

}  // namespace attnlab
#endif
