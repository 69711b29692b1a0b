// Products of matrices rounded to bfloat16, against loops over whole numbers: small ones have so
// few bits that nothing is rounded, and every sum is exact.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "framework/base/processor.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/unit/nn/kernels/rounded_product_test.cpp"
#include "framework/nn/kernels/dispatch-inl.h"
// (Above: before the vectors.)
#include "framework/nn/kernels/rounded_product-inl.h"

#ifndef ATTNLAB_ROUNDED_PRODUCT_TEST
#define ATTNLAB_ROUNDED_PRODUCT_TEST
namespace attnlab::rounded_product_test {

/// C [rows, columns] += A B. A lies by rows, or by columns.
struct Product {
  std::int64_t rows, depth, columns;
  bool by_columns, adds;
  bool by_vectors;    ///< also where the processor has tiles
  std::int64_t from;  ///< the first row of B that counts
  std::vector<float> a, b, c;
};

}  // namespace attnlab::rounded_product_test
#endif

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

void compute(rounded_product_test::Product& p) {
  const std::int64_t all_rows = p.from + p.depth;
  std::vector<float> room(static_cast<std::size_t>(panel_room<float>(all_rows, p.columns)));
  RoundedPanels b{reinterpret_cast<decltype(RoundedPanels::data)>(room.data()), all_rows};
  pack(Matrix<const float>{p.b.data(), p.columns}, b, all_rows, p.columns);
  Matrix<const float> a{p.a.data(), p.depth};
  if (p.by_columns) a = {p.a.data(), 1, p.rows};
  const Matrix<float> c{p.c.data(), p.columns};
  const auto part = b.from_row(p.from).fixed();
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  if (p.by_vectors) {
    return p.adds ? multiply_by_vectors<true>(a, part, c, p.rows, p.depth, p.columns, false)
                  : multiply_by_vectors<false>(a, part, c, p.rows, p.depth, p.columns, false);
  }
#endif
  if (!p.adds) return multiply(a, part, c, p.rows, p.depth, p.columns, false);
  // As the kernels do: rows with room for whole vectors.
  const std::int64_t row = (p.columns + 63) / 64 * 64;
  std::vector<float> wide(static_cast<std::size_t>(p.rows * row), 0.0F);
  for (std::int64_t r = 0; r < p.rows; ++r) {
    std::copy_n(p.c.data() + r * p.columns, p.columns, wide.data() + r * row);
  }
  add_multiplied(a, part, Matrix<float>{wide.data(), row}, p.rows, p.depth, p.columns);
  for (std::int64_t r = 0; r < p.rows; ++r) {
    std::copy_n(wide.data() + r * row, p.columns, p.c.data() + r * p.columns);
  }
}

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnlab {
HWY_EXPORT(compute);

namespace rounded_product_test {
namespace {

std::vector<float> whole_numbers(std::int64_t count, std::mt19937& random) {
  std::uniform_int_distribution<int> any(-100, 100);
  std::vector<float> all(static_cast<std::size_t>(count));
  for (float& one : all) one = static_cast<float>(any(random));
  return all;
}

std::vector<float> expected(const Product& p) {
  std::vector<float> c = p.c;
  for (std::int64_t i = 0; i < p.rows; ++i) {
    for (std::int64_t j = 0; j < p.columns; ++j) {
      std::int64_t sum = p.adds ? static_cast<std::int64_t>(c[i * p.columns + j]) : 0;
      for (std::int64_t k = 0; k < p.depth; ++k) {
        const float a = p.by_columns ? p.a[k * p.rows + i] : p.a[i * p.depth + k];
        sum += static_cast<std::int64_t>(a * p.b[(p.from + k) * p.columns + j]);
      }
      c[i * p.columns + j] = static_cast<float>(sum);
    }
  }
  return c;
}

TEST(RoundedProduct, OfWholeNumbersIsExactAtEverySize) {
  hold_kernels();
  if (std::string(kernels_run_with()) == "avx512" && !processor_has_bfloat16()) {
    GTEST_SKIP() << "no products of bfloat16 here";
  }
  std::mt19937 random(1);
  // Below, at, and above units of tiles and panels; a depth of two parts.
  for (const std::int64_t rows : {1, 5, 12, 16, 17, 31, 32, 33, 48, 70}) {
    for (const std::int64_t depth : {1, 2, 15, 31, 32, 33, 64, 99, 530}) {
      for (const std::int64_t columns : {1, 7, 16, 17, 32, 33, 45, 48, 64, 80}) {
        for (int way = 0; way < 8; ++way) {
          Product p{
              rows, depth, columns, way % 2 == 1, way / 2 % 2 == 1, way >= 4, way % 4 == 3 ? 6 : 0,
              {},   {},    {}};
          p.a = whole_numbers(rows * depth, random);
          p.b = whole_numbers((p.from + depth) * columns, random);
          p.c = whole_numbers(rows * columns, random);
          const std::vector<float> wanted = expected(p);
          ATTNLAB_DISPATCH(compute)(p);
          ASSERT_EQ(p.c, wanted) << rows << " x " << depth << " x " << columns << ", way " << way;
        }
      }
    }
  }
}

TEST(RoundedProduct, TilesAreThereOnlyWithProductsOfBfloat16) {
  if (processor_has_tiles()) {
    EXPECT_TRUE(processor_has_bfloat16());
  }
}

}  // namespace
}  // namespace rounded_product_test
}  // namespace attnlab
#endif
