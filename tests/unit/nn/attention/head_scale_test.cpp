// Factors of heads against the product that broadcasts.
#include "framework/nn/attention/head_scale.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/support/gradcheck.h"
#include "tests/support/naive_attention.h"

namespace attnlab::head_scale_test {
namespace {

using testing::largest_difference;

/// [2, 3, 5, 7] in every layout that attentions meet: dense, by token, by head, turned, expanded.
std::vector<Tensor> layouts(at::ScalarType dtype) {
  const at::TensorOptions options = at::TensorOptions().dtype(dtype);
  return {at::randn({2, 3, 5, 7}, options), at::randn({2, 5, 3, 7}, options).transpose(1, 2),
          at::randn({3, 2, 5, 7}, options).transpose(0, 1),
          at::randn({2, 3, 7, 5}, options).transpose(2, 3),
          at::randn({1, 3, 5, 14}, options).narrow(3, 7, 7).expand({2, 3, 5, 7})};
}

TEST(HeadScale, IsTheProductInAnyLayout) {
  at::manual_seed(1);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    for (const Tensor& from : layouts(dtype)) {
      const Tensor x = from.detach().requires_grad_();
      const Tensor factors = at::randn({3, 1, 7}, x.options()).requires_grad_();
      const Tensor y = scale_heads(x, factors), expected = x * factors;
      EXPECT_LT(largest_difference(y, expected), 1e-6);
      for (const Tensor& weights : layouts(dtype)) {
        const auto found = torch::autograd::grad({y}, {x, factors}, {weights}, true);
        const auto wanted = torch::autograd::grad({expected}, {x, factors}, {weights}, true);
        EXPECT_LT(largest_difference(found[0], wanted[0]), 1e-5);
        EXPECT_LT(largest_difference(found[1], wanted[1]), 1e-5);
      }
      const at::NoGradGuard no_gradients;
      EXPECT_TRUE(scale_heads(x, factors).equal(y));
    }
  }
}

TEST(HeadScale, KeepsTheLayoutOfItsInput) {
  const Tensor by_head = at::randn({3, 2, 5, 7}).transpose(0, 1);
  EXPECT_EQ(scale_heads(by_head, at::ones({3, 1, 7})).strides(), by_head.strides());
}

TEST(HeadScale, HasSecondDerivatives) {
  at::manual_seed(2);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const Tensor x = layouts(dtype)[2].requires_grad_();
    const Tensor factors = at::randn({3, 1, 7}, x.options()).requires_grad_();
    const auto second = [&](const Tensor& y) {
      const auto first = torch::autograd::grad({y.sin().sum()}, {x, factors}, {}, true, true);
      return torch::autograd::grad({first[0].pow(2).sum() + first[1].pow(2).sum()}, {x, factors});
    };
    const auto found = second(scale_heads(x, factors)), wanted = second(x * factors);
    EXPECT_LT(largest_difference(found[0], wanted[0]), dtype == at::kFloat ? 1e-3 : 1e-10);
    EXPECT_LT(largest_difference(found[1], wanted[1]), dtype == at::kFloat ? 1e-3 : 1e-10);
  }
}

}  // namespace
}  // namespace attnlab::head_scale_test
