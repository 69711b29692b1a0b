// Products of small matrices against their definition.
#include "framework/nn/kernels/small_product.h"

#include <gtest/gtest.h>

#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab::small_product_test {
namespace {

struct Case {
  std::int64_t rows, depth, columns;
};

/// Every kind of tile and what is left over, and depths of less and more than a block.
const std::vector<Case> kCases = {{1, 1, 1},   {4, 20, 20}, {5, 20, 10}, {7, 3, 33}, {32, 20, 40},
                                  {3, 64, 16}, {8, 65, 31}, {2, 200, 7}, {6, 0, 5},  {0, 4, 4},
                                  {9, 70, 20}, {6, 5, 23},  {5, 4, 36},  {4, 6, 24}};

Tensor product_of(const Tensor& a, const Tensor& b, const Tensor& start) {
  Tensor c = at::full({a.size(0), b.size(1)}, 1e30F);
  small_product({.rows = a.size(0),
                 .depth = a.size(1),
                 .columns = b.size(1),
                 .a = {a.data_ptr<float>(), a.stride(0), a.stride(1)},
                 .b = b.data_ptr<float>(),
                 .start = start.defined() ? start.data_ptr<float>() : nullptr,
                 .c = c.data_ptr<float>()});
  return c;
}

double error(const Tensor& found, const Tensor& a, const Tensor& b, const Tensor& start) {
  if (found.numel() == 0) return 0;
  Tensor expected = at::matmul(a.to(at::kDouble), b.to(at::kDouble));
  if (start.defined()) expected = expected + start.to(at::kDouble);
  return (found.to(at::kDouble) - expected).abs().max().item<double>();
}

TEST(SmallProduct, IsTheProductAndWhatItStartsFrom) {
  at::manual_seed(1);
  for (const Case& c : kCases) {
    const Tensor a = at::randn({c.rows, c.depth}), b = at::randn({c.depth, c.columns});
    const Tensor start = at::randn({c.columns});
    EXPECT_LT(error(product_of(a, b, {}), a, b, {}), 1e-4) << c.rows << ' ' << c.depth;
    EXPECT_LT(error(product_of(a, b, start), a, b, start), 1e-4) << c.rows << ' ' << c.depth;
  }
}

TEST(SmallProduct, StartsEachRowFromThatOfItsPlace) {
  at::manual_seed(5);
  for (const Case& c : kCases) {
    for (const std::int64_t places : {1, 2, 3, 7}) {
      const Tensor a = at::randn({c.rows, c.depth}), b = at::randn({c.depth, c.columns});
      const Tensor start = at::randn({places, c.columns + 3});
      Tensor found = at::full({c.rows, c.columns}, 1e30F);
      small_product({.rows = c.rows,
                     .depth = c.depth,
                     .columns = c.columns,
                     .a = {a.data_ptr<float>(), c.depth},
                     .b = b.data_ptr<float>(),
                     .start = start.data_ptr<float>() + 2,
                     .places = places,
                     .start_step = c.columns + 3,
                     .c = found.data_ptr<float>()});
      const Tensor rows = start.narrow(1, 2, c.columns).repeat({c.rows / places + 1, 1});
      EXPECT_LT(error(found, a, b, rows.narrow(0, 0, c.rows)), 1e-4) << c.rows << ' ' << places;
    }
  }
}

TEST(SmallProduct, ReadsItsFirstMatrixAtAnyDistance) {
  at::manual_seed(2);
  for (const Case& c : kCases) {
    const Tensor turned = at::randn({c.depth, c.rows}).t(), b = at::randn({c.depth, c.columns});
    EXPECT_LT(error(product_of(turned, b, {}), turned, b, {}), 1e-4) << c.rows << ' ' << c.depth;
  }
}

TEST(SmallProduct, AddsToWhatStandsThere) {
  at::manual_seed(4);
  for (const Case& c : kCases) {
    const Tensor a = at::randn({c.rows, c.depth}), b = at::randn({c.depth, c.columns});
    const Tensor before = at::randn({c.rows, c.columns});
    Tensor after = before.clone();
    small_product({.rows = c.rows,
                   .depth = c.depth,
                   .columns = c.columns,
                   .a = {a.data_ptr<float>(), c.depth},
                   .b = b.data_ptr<float>(),
                   .c = after.data_ptr<float>(),
                   .add = true});
    EXPECT_LT(error(after - before, a, b, {}), 1e-4) << c.rows << ' ' << c.depth;
  }
}

TEST(SmallProduct, GivesARowTheSameNumbersBesideAnyOthers) {
  at::manual_seed(3);
  const Tensor a = at::randn({9, 130}), b = at::randn({130, 21});
  const Tensor all = product_of(a, b, {});
  for (std::int64_t i = 0; i < 9; ++i) {
    EXPECT_TRUE(product_of(a.narrow(0, i, 1), b, {}).equal(all.narrow(0, i, 1))) << i;
  }
}

TEST(SmallProduct, WritesNothingBesideItsResult) {
  const Tensor a = at::ones({5, 3}), b = at::ones({3, 7});
  Tensor c = at::full({5 * 7 + 32}, -1.0F);
  small_product({.rows = 5,
                 .depth = 3,
                 .columns = 7,
                 .a = {a.data_ptr<float>(), 3},
                 .b = b.data_ptr<float>(),
                 .c = c.data_ptr<float>() + 16});
  EXPECT_TRUE((c.narrow(0, 16, 35) == 3).all().item<bool>());
  EXPECT_TRUE((c.narrow(0, 0, 16) == -1).all().item<bool>());
  EXPECT_TRUE((c.narrow(0, 51, 16) == -1).all().item<bool>());
}

TEST(SmallTranspose, IsTheTranspose) {
  const Tensor x = at::randn({5, 7}), y = at::empty({7, 5});
  small_transpose(x.data_ptr<float>(), 5, 7, y.data_ptr<float>());
  EXPECT_TRUE(y.equal(x.t()));
}

}  // namespace
}  // namespace attnlab::small_product_test
