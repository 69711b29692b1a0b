// Float32 kernels against the same computation in float64: values, gradients, gradients of
// gradients.
#pragma once

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <vector>

#include "tests/support/gradcheck.h"

namespace attnlab::testing {

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

/// The function's value, its gradients, and the gradients of a sum of those.
inline std::vector<Tensor> value_and_gradients(const Function& f,
                                               const std::vector<Tensor>& leaves) {
  const auto probed = [](const Tensor& y) { return (y * probe_like(y.detach())).sum(); };
  const Tensor y = f(leaves);
  std::vector<Tensor> all = {y};
  for (const Tensor& g : torch::autograd::grad({probed(y)}, leaves, {}, true)) all.push_back(g);
  const auto first = torch::autograd::grad({probed(y)}, leaves, {}, true, /*create_graph=*/true);
  Tensor sum = at::zeros({}, y.options());
  for (const Tensor& g : first) sum = sum + probed(g);
  for (const Tensor& g : torch::autograd::grad({sum}, leaves, {}, true, false, true)) {
    all.push_back(g);
  }
  return all;
}

/// Values, gradients and gradients of gradients are the same to the last bit each time.
/// @param inputs  float32
inline void expect_the_same_bits_again(const Function& kernel, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) leaves.push_back(input.detach().requires_grad_());
  const auto first = value_and_gradients(kernel, leaves);
  for (int again = 0; again < 3; ++again) {
    const auto next = value_and_gradients(kernel, leaves);
    ASSERT_EQ(next.size(), first.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
      if (!first[i].defined()) continue;
      EXPECT_TRUE(next[i].equal(first[i])) << "result " << i;
    }
  }
}

/// @param kernel    of float32 @param plain  the same of operations, given float64
/// @param inputs    float32
/// @param tolerance of the largest number of each result, or of 1 where all are smaller
inline void expect_like_double(const Function& kernel, const Function& plain,
                               const std::vector<Tensor>& inputs, double tolerance) {
  std::vector<Tensor> narrow, wide;
  for (const Tensor& input : inputs) {
    narrow.push_back(input.detach().requires_grad_());
    wide.push_back(input.detach().to(at::kDouble).requires_grad_());
  }
  const auto found = value_and_gradients(kernel, narrow), wanted = value_and_gradients(plain, wide);
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].defined(), wanted[i].defined()) << "result " << i;
    if (!found[i].defined()) continue;
    ASSERT_EQ(found[i].sizes(), wanted[i].sizes()) << "result " << i;
    if (found[i].numel() == 0) continue;
    const double size = std::max(1.0, wanted[i].abs().max().item<double>());
    const double error = (found[i].to(at::kDouble) - wanted[i]).abs().max().item<double>();
    EXPECT_LE(error / size, tolerance) << "result " << i << " of " << found[i].sizes();
  }
}

}  // namespace attnlab::testing
