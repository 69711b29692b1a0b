// Products of dense float32 matrices by oneDNN, where attnlab was built with its headers.
#pragma once

#include <cstdint>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// Whether there are such products at all.
bool has_large_products();

/// Multiply-adds below which the price of a call shows: OpenBLAS has kernels for those.
inline constexpr std::int64_t kLargeProduct = 1024 * 1024;

/// Dense rows, or the transpose of such a matrix.
struct DenseFactor {
  const float* data;
  std::int64_t row;  ///< numbers from one row in memory to the next
  bool transposed = false;
};

/// Of a contiguous float32 matrix, or of its transpose.
inline DenseFactor dense_factor(const Tensor& x, bool transposed = false) {
  return {x.data_ptr<float>(), x.size(1), transposed};
}

/// C [rows, columns] = A B, or C += A B where `add`. On the threads of the caller's team: on one
/// inside of at::parallel_for.
void large_product(const DenseFactor& a, const DenseFactor& b, float* c, std::int64_t rows,
                   std::int64_t depth, std::int64_t columns, bool add = false);

}  // namespace attnlab
