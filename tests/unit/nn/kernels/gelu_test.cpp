// GELU against its definition in float64.
#include "framework/nn/kernels/gelu.h"

#include <cmath>
#include <limits>

#include "tests/support/few_threads.h"
#include "tests/support/like_double.h"

namespace attnlab::gelu_test {
namespace {

Tensor plain(const std::vector<Tensor>& in) { return at::gelu(in[0]); }
Tensor ours(const std::vector<Tensor>& in) { return attnlab::gelu(in[0]); }

TEST(Gelu, IsItsDefinitionWithItsGradients) {
  at::manual_seed(1);
  for (const std::int64_t n : {1, 2, 7, 15, 16, 17, 33, 100, 20000}) {
    testing::expect_like_double(ours, plain, {at::randn({n}) * 3}, 1e-6);
  }
  testing::expect_like_double(ours, plain, {at::randn({5, 8}).t() * 3}, 1e-6);
}

TEST(Gelu, IsRightFarFromZeroToo) {
  // The value is tiny below zero; LibTorch's own loses it in 1 + erf.
  const Tensor x = at::linspace(-12.5, 12.5, 4001);
  const Tensor y = attnlab::gelu(x);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double at = x[i].item<float>(), wanted = 0.5 * at * std::erfc(-at * M_SQRT1_2);
    // Rounding of x²/2 itself weighs x²/2 in its exponential.
    const double allowed = 4e-7 + 1.2e-7 * at * at / 2;
    EXPECT_NEAR(y[i].item<float>(), wanted, std::max(allowed * std::abs(wanted), 1e-37)) << at;
  }
}

TEST(Gelu, KeepsWhatIsNoNumber) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Tensor y = attnlab::gelu(at::tensor({kInfinity, std::nanf(""), 0.F, 1e30F, -1e30F}));
  EXPECT_EQ(y[0].item<float>(), kInfinity);
  EXPECT_TRUE(std::isnan(y[1].item<float>()));
  EXPECT_EQ(y[2].item<float>(), 0.F);
  EXPECT_EQ(y[3].item<float>(), 1e30F);
  EXPECT_EQ(y[4].item<float>(), 0.F);
}

TEST(Gelu, ByTanhIsItsFormula) {
  const Tensor x = at::linspace(-6, 6, 241);
  const Tensor y = gelu_tanh(x), narrow = gelu_tanh(x.to(at::kBFloat16));
  EXPECT_EQ(narrow.scalar_type(), at::kBFloat16);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double at = x[i].item<float>();
    const double wanted =
        at / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (at + 0.044715 * at * at * at)));
    EXPECT_NEAR(y[i].item<float>(), wanted, 1e-6) << at;
    EXPECT_NEAR(narrow[i].item<float>(), wanted, 0.02 + 0.01 * std::abs(wanted)) << at;
  }
}

TEST(Gelu, OfOtherTypesIsLibTorchs) {
  const Tensor x = at::randn({40}, at::kDouble);
  EXPECT_TRUE(attnlab::gelu(x).equal(at::gelu(x)));
}

}  // namespace
}  // namespace attnlab::gelu_test
