// Vectors over their norms: values, gradients, layouts and narrow numbers.
#include "framework/nn/kernels/unit.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/gradcheck.h"
#include "tests/support/naive_attention.h"

namespace attnlab::unit_test {
namespace {

using testing::gradient_error;
using testing::largest_difference;
using testing::second_gradient_error;

TEST(Unit, DividesByTheNormAndHasRightGradients) {
  at::manual_seed(16);
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{3}, {2, 5}, {2, 3, 4, 37}}) {
    const Tensor x = at::randn(sizes, at::kDouble);
    const Tensor expected = x / (x * x).sum(-1, true).sqrt();
    EXPECT_LT(largest_difference(unit(x, 1e-12), expected), 1e-14);
    const auto f = [](const std::vector<Tensor>& in) { return unit(in[0], 1e-12); };
    EXPECT_LT(gradient_error(f, {x}), 1e-7);
  }
  const auto f = [](const std::vector<Tensor>& in) { return unit(in[0], 1e-12); };
  EXPECT_LT(second_gradient_error(f, {at::randn({2, 3, 4, 3}, at::kDouble)}), 1e-6);
}

TEST(Unit, DividesShortVectorsByEps) {
  const Tensor x = at::tensor({3.0, 4.0, 0.03, 0.04, 0.0, 0.0}, at::kDouble).view({3, 2});
  const auto f = [](const std::vector<Tensor>& in) { return unit(in[0], 0.1); };
  EXPECT_LT(largest_difference(
                unit(x, 0.1), at::tensor({0.6, 0.8, 0.3, 0.4, 0.0, 0.0}, at::kDouble).view({3, 2})),
            1e-12);
  EXPECT_LT(gradient_error(f, {x}), 1e-7);
  EXPECT_LT(second_gradient_error(f, {x}), 1e-6);
}

TEST(Unit, ZeroVectorsGiveZerosAndFiniteGradients) {
  for (const double eps : {0.0, 1e-12, 0.5}) {
    const Tensor x = at::zeros({2, 3}, at::kFloat).requires_grad_();
    const Tensor y = unit(x, eps);
    y.sum().backward();
    EXPECT_EQ(y.abs().max().item<double>(), 0);
    EXPECT_FLOAT_EQ(x.grad()[0][0].item<float>(), eps == 0 ? 0.0f : static_cast<float>(1 / eps));
  }
}

TEST(Unit, ReadsStridedViewsAndGradientsInAnyOrder) {
  at::manual_seed(17);
  const Tensor packed = at::randn({2, 5, 3, 4, 6}, at::kDouble);
  const auto f = [](const std::vector<Tensor>& in) {
    const Tensor keys = in[0].select(2, 1).transpose(1, 2);
    return unit(keys, 1e-12).transpose(2, 3).contiguous();
  };
  const Tensor keys = packed.select(2, 1).transpose(1, 2);
  EXPECT_LT(largest_difference(unit(keys, 1e-12), unit(keys.contiguous(), 1e-12)), 1e-15);
  EXPECT_LT(gradient_error(f, {packed}), 1e-7);
}

TEST(Unit, BFloat16IsComputedInFloat) {
  at::manual_seed(18);
  const Tensor x = at::randn({4, 64}).to(at::kBFloat16);
  const Tensor exact = unit(x.to(at::kDouble), 1e-12);
  EXPECT_EQ(largest_difference(unit(x, 1e-12), exact.to(at::kFloat).to(at::kBFloat16)), 0);
}

TEST(Unit, HalfIsComputedInFloat) {
  at::manual_seed(19);
  // Squares above 65504 and below the smallest half, and a row of zeros.
  const Tensor x =
      (at::randn({4, 64}) * at::tensor({1.f, 500.f, 1e-4f, 0.f}).view({4, 1})).to(at::kHalf);
  const Tensor y = unit(x, 1e-12);
  EXPECT_EQ(y.scalar_type(), at::kHalf);
  EXPECT_LT(largest_difference(y.to(at::kDouble), unit(x.to(at::kDouble), 1e-12)), 1e-3);
}

}  // namespace
}  // namespace attnlab::unit_test
