// Rows of bfloat16 against LibTorch's conversions and operations in double precision.
#include "framework/nn/kernels/rounded_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace attnlab::rounded_rows_test {
namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.numel() == b.numel() && a.dtype() == b.dtype() &&
         std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
}

/// Largest difference, in units of the last of bfloat16's 8 bits.
double units(const Tensor& found, const Tensor& exact) {
  const Tensor off = (found.to(at::kDouble) - exact).abs() / (exact.abs() + 1e-3);
  return off.max().item<double>() * 256;
}

TEST(RoundedRows, RoundsAsLibTorchDoes) {
  at::manual_seed(1);
  for (const std::int64_t n : {1, 3, 8, 15, 16, 17, 40}) {
    const Tensor x = at::randn({5, n});
    EXPECT_TRUE(same_bits(rounded(x), x.to(at::kBFloat16))) << n;
  }
  // Ties go to even, both ways; what is too large becomes infinite.
  const Tensor ties =
      at::tensor({1.00390625F, 1.01171875F, -1.00390625F, -1.01171875F, 0.F, -0.F, 1e-40F, 1e-45F,
                  std::numeric_limits<float>::max(), std::numeric_limits<float>::infinity()});
  EXPECT_TRUE(same_bits(rounded(ties), ties.to(at::kBFloat16).view({1, -1})));
  const Tensor nan = at::full({20}, std::nanf("1"));
  EXPECT_TRUE(rounded(nan).isnan().all().item<bool>());
  EXPECT_TRUE(rounded(-nan).isnan().all().item<bool>());
}

TEST(RoundedRows, AnyLayoutIsTaken) {
  const Tensor x = at::randn({4, 6, 5}).transpose(0, 2);
  EXPECT_TRUE(same_bits(rounded(x), x.contiguous().view({-1, 4}).to(at::kBFloat16)));
}

TEST(RoundedRows, SumsAreOfWhatIsNotRounded) {
  at::manual_seed(2);
  for (const std::int64_t rows : {1, 7, 5000}) {
    const Tensor x = at::randn({rows, 37}) + 1, sums = at::empty({37});
    rounded(x, sums);
    const Tensor exact = x.to(at::kDouble).sum(0);
    EXPECT_LT(((sums - exact).abs() / (exact.abs() + 1)).max().item<double>(), 1e-5) << rows;
  }
}

TEST(RoundedRows, WideningAddsTheBias) {
  at::manual_seed(3);
  for (const std::int64_t n : {1, 16, 37}) {
    const Tensor x = at::randn({600, n}).to(at::kBFloat16), bias = at::randn({n});
    EXPECT_TRUE(widened(x, bias, {2, 300, n}).equal((x.to(at::kFloat) + bias).view({2, 300, n})));
    EXPECT_TRUE(widened(x, {}, x.sizes()).equal(x.to(at::kFloat)));
    EXPECT_TRUE(widened(x, at::empty({0}), x.sizes()).equal(x.to(at::kFloat)));
  }
}

TEST(RoundedRows, ActivationsAndTheirGradients) {
  at::manual_seed(4);
  for (const Activation activation : {Activation::gelu, Activation::relu}) {
    for (const std::int64_t n : {1, 16, 37, 600}) {
      const Tensor h = (2 * at::randn({50, n})).to(at::kBFloat16), bias = at::randn({n});
      const Tensor at = (h.to(at::kDouble) + bias).requires_grad_();
      const Tensor y = activation == Activation::gelu ? at::gelu(at) : at::relu(at);
      const Tensor dy = at::randn({50, n}).to(at::kBFloat16);
      y.backward(dy.to(at::kDouble));
      EXPECT_LT(units(activated(activation, h, bias, false), y.detach()), 1.01) << n;
      const Tensor dx = dy.clone(), sums = at::empty({n});
      deactivate(activation, h, bias, dx, sums);
      EXPECT_LT(units(dx, at.grad()), 1.01) << n;
      EXPECT_LT((sums - at.grad().sum(0)).abs().max().item<double>(), 1e-3) << n;
      const Tensor again = dy.clone();
      deactivate(activation, h, bias, again, {});
      EXPECT_TRUE(again.equal(dx)) << n;
      const Tensor place = h.clone();
      EXPECT_EQ(activated(activation, place, bias, true).data_ptr(), place.data_ptr());
      EXPECT_TRUE(place.equal(activated(activation, h, bias, false)));
    }
  }
}

TEST(RoundedRows, NaNStays) {
  for (const Activation activation : {Activation::gelu, Activation::relu}) {
    const Tensor h = at::full({2, 20}, std::nanf("")).to(at::kBFloat16);
    EXPECT_TRUE(activated(activation, h, {}, false).isnan().all().item<bool>());
  }
}

}  // namespace
}  // namespace attnlab::rounded_rows_test
