// Products of small matrices: see the header.
//
// A tile of four rows and two vectors of columns gathers its sums in registers while it walks down
// the depth; columns that are left over go in narrower tiles, four of them beside the last whole
// one (by themselves they would be too few sums to keep the processor busy). The vectors are the
// compiler's own (vector_size), as loops over a tile of plain numbers are not kept in registers.
#include "framework/nn/kernels/small_product.h"

#include <algorithm>

#include "framework/base/vector_clones.h"

namespace attnlab {
namespace {

/// How much of the depth is walked at once: rows of A and B of this many steps stay in the first
/// level of cache while all tiles pass over them.
constexpr std::int64_t kDepthBlock = 64;

/// `width` numbers side by side, at any address.
template <int width>
struct Vector {
  using type
      [[gnu::vector_size(width * sizeof(float)), gnu::aligned(sizeof(float)), gnu::may_alias]] =
          float;
};

/// What row `row` of C starts from, or null. @param begin  of the block of the depth
[[gnu::always_inline]] inline const float* start_of(const SmallProduct& p, std::int64_t row,
                                                    std::int64_t place, std::int64_t begin) {
  if (begin > 0 || p.add) return p.c + row * p.columns;
  if (p.start == nullptr) return nullptr;
  while (place >= p.places) place -= p.places;
  return p.start + place * p.start_step;
}

/// Where a tile stands: rows [row, row + rows) of C from `column` on, and what part of the depth
/// it takes.
struct Spot {
  std::int64_t row, place;  ///< place: row % places
  std::int64_t begin, end;
  std::int64_t column = 0;
};

/// Columns [column, column + vectors * width + tail). @param tail  4, or 0 for none
template <int rows, int vectors, int width, int tail = 0>
[[gnu::always_inline]] inline void tile(const SmallProduct& p, const Spot& at) {
  using V = typename Vector<width>::type;
  using W = typename Vector<4>::type;
  constexpr int kWide = vectors * width;
  const float* a = p.a.first + at.row * p.a.row_step;
  float* c = p.c + at.row * p.columns + at.column;
  V sums[rows][vectors];
  W rest[rows];
  for (int r = 0; r < rows; ++r) {
    const float* from = start_of(p, at.row + r, at.place + r, at.begin);
    if (from != nullptr) from += at.column;
    for (int v = 0; v < vectors; ++v) {
      sums[r][v] = from == nullptr ? V{} : *reinterpret_cast<const V*>(from + v * width);
    }
    if (tail > 0) rest[r] = from == nullptr ? W{} : *reinterpret_cast<const W*>(from + kWide);
  }
  for (std::int64_t i = at.begin; i < at.end; ++i) {
    const float* b = p.b + i * p.columns + at.column;
    V along[vectors];
    for (int v = 0; v < vectors; ++v) along[v] = *reinterpret_cast<const V*>(b + v * width);
    W along_rest{};
    if (tail > 0) along_rest = *reinterpret_cast<const W*>(b + kWide);
    for (int r = 0; r < rows; ++r) {
      const float factor = a[r * p.a.row_step + i * p.a.column_step];
      for (int v = 0; v < vectors; ++v) sums[r][v] += factor * along[v];
      if (tail > 0) rest[r] += factor * along_rest;
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      *reinterpret_cast<V*>(c + r * p.columns + v * width) = sums[r][v];
    }
    if (tail > 0) *reinterpret_cast<W*>(c + r * p.columns + kWide) = rest[r];
  }
}

template <int rows>
[[gnu::always_inline]] inline void band(const SmallProduct& p, Spot at) {
  const auto left = [&] { return p.columns - at.column; };
  for (; left() >= 16; at.column += 16) {
    if (left() >= 20 && left() < 24) {
      tile<rows, 2, 8, 4>(p, at);
      at.column += 4;
    } else {
      tile<rows, 2, 8>(p, at);
    }
  }
  for (; left() >= 8; at.column += 8) tile<rows, 1, 8>(p, at);
  for (; left() >= 4; at.column += 4) tile<rows, 1, 4>(p, at);
  for (; left() >= 2; at.column += 2) tile<rows, 1, 2>(p, at);
  for (; left() >= 1; ++at.column) tile<rows, 1, 1>(p, at);
}

ATTNLAB_VECTOR_CLONES
void multiply(const SmallProduct& p) {
  for (std::int64_t begin = 0; begin == 0 || begin < p.depth; begin += kDepthBlock) {
    Spot at{0, 0, begin, std::min(begin + kDepthBlock, p.depth)};
    for (; at.row < p.rows;) {
      const std::int64_t rows = at.row + 4 <= p.rows ? 4 : 1;
      rows == 4 ? band<4>(p, at) : band<1>(p, at);
      at.row += rows;
      for (at.place += rows; at.place >= p.places;) at.place -= p.places;
    }
  }
}

}  // namespace

void small_product(const SmallProduct& product) { multiply(product); }

void small_transpose(const float* b, std::int64_t rows, std::int64_t columns, float* out) {
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) out[j * rows + i] = b[i * columns + j];
  }
}

}  // namespace attnlab
