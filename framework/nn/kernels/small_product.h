// Products of small float32 matrices on the thread that calls, without the price of a call into a
// BLAS library: there a product of a few thousand multiply-adds costs several times its arithmetic.
#pragma once

#include <cstdint>

namespace attnlab {

/// Entry (i, j) stands at first[i * row_step + j * column_step].
struct MatrixView {
  const float* first;
  std::int64_t row_step;
  std::int64_t column_step = 1;
};

struct SmallProduct {
  std::int64_t rows, depth, columns;
  MatrixView a;                  ///< [rows, depth]
  const float* b;                ///< [depth, columns], dense
  const float* start = nullptr;  ///< [places, columns], row i % places added to row i; null: none
  std::int64_t places = 1;
  std::int64_t start_step = 0;  ///< from one row of `start` to the next
  float* c;                     ///< [rows, columns], dense; neither a nor b
  bool add = false;             ///< to what stands in C; `start` is not read then
};

/// C = A B + start, or C += A B. Sums run over the depth from the first to the last, in one order
/// whatever the number of rows; where the depth is long, block by block (kSmallProductBlock).
void small_product(const SmallProduct& product);

/// B^T of b [rows, columns], dense: `small_product` reads B row by row.
void small_transpose(const float* b, std::int64_t rows, std::int64_t columns, float* out);

}  // namespace attnlab
