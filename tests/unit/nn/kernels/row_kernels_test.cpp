// Loops over rows against plain loops, for every length around a vector's.
#include "framework/nn/kernels/row_kernels.h"

#include <gtest/gtest.h>

#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab::row_kernels_test {
namespace {

template <class T>
std::vector<T> numbers(std::int64_t n) {
  const Tensor x = at::randn({n}, c10::CppTypeToScalarType<T>::value);
  return std::vector<T>(x.data_ptr<T>(), x.data_ptr<T>() + n);
}

template <class T>
class RowKernels : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(RowKernels, Types);

TYPED_TEST(RowKernels, EqualPlainLoopsAndWriteNothingBehindTheRow) {
  using T = TypeParam;
  at::manual_seed(1);
  const double near = sizeof(T) == 4 ? 1e-4 : 1e-12;
  for (std::int64_t n = 0; n < 140; ++n) {
    const auto a = numbers<T>(n + 1), b = numbers<T>(n + 1), c = numbers<T>(n + 1);
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += double(a[i]) * double(b[i]);
    EXPECT_NEAR(rows::dot(a.data(), b.data(), n), sum, near) << n;

    auto added = c, scaled = c, weighted = c, left = c;
    rows::add_scaled(added.data(), T(0.5), a.data(), n);
    rows::scale_by(scaled.data(), T(0.5), a.data(), n);
    rows::add_weighted_difference(weighted.data(), a.data(), b.data(), T(0.3), n);
    rows::subtract_terms(left.data(), {a.data(), c.data(), T(2), b.data(), T(3), a.data()}, n);
    auto plain = c;
    rows::subtract_terms(plain.data(), {nullptr, c.data(), T(2), b.data(), T(3), a.data()}, n);
    for (std::int64_t i = 0; i < n; ++i) {
      EXPECT_NEAR(added[i], c[i] + 0.5 * a[i], near);
      EXPECT_NEAR(scaled[i], c[i] * 0.5 * a[i], near);
      EXPECT_NEAR(weighted[i], c[i] + a[i] * (b[i] - 0.3), near);
      EXPECT_NEAR(left[i], a[i] * (c[i] - 2 * double(b[i]) - 3 * double(a[i])), near);
      EXPECT_NEAR(plain[i], c[i] - 2 * double(b[i]) - 3 * double(a[i]), near);
    }
    for (const auto* row : {&added, &scaled, &weighted, &left, &plain}) {
      EXPECT_EQ((*row)[n], c[n]) << n;
    }
  }
}

TEST(RowsOfMatrices, AreScaledAndAdded) {
  at::manual_seed(2);
  for (const std::int64_t width : {1, 5, 16, 20, 33}) {
    const Tensor x = at::randn({7, width + 2}), z = at::randn({7, width}), by = at::randn({width});
    Tensor y = at::zeros({7, width + 1}), sums = at::ones({width}),
           places = at::ones({3, width + 1});
    rows::scale_rows({x.data_ptr<float>(), width + 2}, by.data_ptr<float>(),
                     {y.data_ptr<float>(), width + 1}, 7, width);
    EXPECT_TRUE(y.narrow(1, 0, width).equal(x.narrow(1, 0, width) * by));
    EXPECT_TRUE(y.select(1, width).eq(0).all().item<bool>());
    rows::add_products({x.data_ptr<float>(), width + 2}, {z.data_ptr<float>(), width},
                       sums.data_ptr<float>(), 7, width);
    EXPECT_TRUE(at::allclose(sums, (x.narrow(1, 0, width) * z).sum(0) + 1, 1e-4, 1e-4));
    rows::add_rows(z.data_ptr<float>(), 7, width, {places.data_ptr<float>(), width + 1}, 3);
    EXPECT_TRUE(at::allclose(places[0].narrow(0, 0, width), z[0] + z[3] + z[6], 1e-5, 1e-5));
    EXPECT_TRUE(at::allclose(places[2].narrow(0, 0, width), z[2] + z[5], 1e-5, 1e-5));
    EXPECT_TRUE(places.select(1, width).eq(1).all().item<bool>());
  }
}

}  // namespace
}  // namespace attnlab::row_kernels_test
