// Products of small matrices: see the header.
//
// A tile of four rows and two vectors of columns gathers its sums in registers while it walks down
// the depth; columns that are left over go in narrower tiles. The vectors are the compiler's own
// (vector_size), as loops over a tile of plain numbers are not kept in registers.
#include "framework/nn/small_product.h"

#include <algorithm>

#include "framework/core/vector_clones.h"

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

/// Rows [row, row + rows) and columns [column, column + vectors * width) of C, over a block of the
/// depth. @param first  whether it is the first block, which starts the sums
template <int rows, int vectors, int width>
[[gnu::always_inline]] inline void tile(const SmallProduct& p, std::int64_t row,
                                        std::int64_t column, std::int64_t begin, std::int64_t end) {
  using V = typename Vector<width>::type;
  const float* a = p.a.first + row * p.a.row_step;
  float* c = p.c + row * p.columns + column;
  V sums[rows][vectors];
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      const float* from = begin > 0 || p.add   ? c + r * p.columns + v * width
                          : p.start != nullptr ? p.start + column + v * width
                                               : nullptr;
      sums[r][v] = from == nullptr ? V{} : *reinterpret_cast<const V*>(from);
    }
  }
  for (std::int64_t i = begin; i < end; ++i) {
    const float* b = p.b + i * p.columns + column;
    V along[vectors];
    for (int v = 0; v < vectors; ++v) along[v] = *reinterpret_cast<const V*>(b + v * width);
    for (int r = 0; r < rows; ++r) {
      const float factor = a[r * p.a.row_step + i * p.a.column_step];
      for (int v = 0; v < vectors; ++v) sums[r][v] += factor * along[v];
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      *reinterpret_cast<V*>(c + r * p.columns + v * width) = sums[r][v];
    }
  }
}

template <int rows>
[[gnu::always_inline]] inline void band(const SmallProduct& p, std::int64_t row, std::int64_t begin,
                                        std::int64_t end) {
  std::int64_t column = 0;
  for (; column + 16 <= p.columns; column += 16) tile<rows, 2, 8>(p, row, column, begin, end);
  for (; column + 8 <= p.columns; column += 8) tile<rows, 1, 8>(p, row, column, begin, end);
  for (; column + 4 <= p.columns; column += 4) tile<rows, 1, 4>(p, row, column, begin, end);
  for (; column + 2 <= p.columns; column += 2) tile<rows, 1, 2>(p, row, column, begin, end);
  for (; column < p.columns; ++column) tile<rows, 1, 1>(p, row, column, begin, end);
}

ATTNLAB_VECTOR_CLONES
void multiply(const SmallProduct& p) {
  for (std::int64_t begin = 0; begin == 0 || begin < p.depth; begin += kDepthBlock) {
    const std::int64_t end = std::min(begin + kDepthBlock, p.depth);
    std::int64_t row = 0;
    for (; row + 4 <= p.rows; row += 4) band<4>(p, row, begin, end);
    for (; row < p.rows; ++row) band<1>(p, row, begin, end);
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
