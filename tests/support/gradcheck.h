// Gradients against central differences, for tests in double precision.
#pragma once

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab::testing {

/// A function of several float64 tensors to one tensor.
using Differentiable = std::function<Tensor(const std::vector<Tensor>&)>;

/// Distinct, fixed weights that make a scalar of a tensor.
inline Tensor probe_like(const Tensor& tensor) {
  return at::linspace(0.3, 1.7, tensor.numel(), tensor.options()).cos().view(tensor.sizes());
}

/// The largest |autograd - central difference| / max(1, |central difference|) over every element of
/// every leaf. @param f       reads the leaves, a module's parameters for instance.
/// @param leaves  float64, contiguous, requiring gradients; unchanged afterwards.
inline double leaf_gradient_error(const std::function<Tensor()>& f,
                                  const std::vector<Tensor>& leaves, double step = 1e-5) {
  const auto probed = [&f] {
    const Tensor y = f();
    return (y * probe_like(y)).sum();
  };
  const auto gradients = torch::autograd::grad({probed()}, leaves);
  double worst = 0;
  for (std::size_t n = 0; n < leaves.size(); ++n) {
    const Tensor gradient = gradients[n].contiguous();
    double* values = leaves[n].data_ptr<double>();
    for (std::int64_t i = 0; i < leaves[n].numel(); ++i) {
      const double value = values[i];
      values[i] = value + step;
      const double above = probed().item<double>();
      values[i] = value - step;
      const double below = probed().item<double>();
      values[i] = value;
      const double numeric = (above - below) / (2 * step);
      const double error = std::abs(gradient.data_ptr<double>()[i] - numeric);
      // Written so that a NaN counts as an error.
      const double relative = error / std::max(1.0, std::abs(numeric));
      if (!(relative <= worst)) worst = relative;
    }
  }
  return worst;
}

/// `leaf_gradient_error` of a function of its inputs. @param inputs  float64, contiguous.
inline double gradient_error(const Differentiable& f, const std::vector<Tensor>& inputs,
                             double step = 1e-5) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) leaves.push_back(input.detach().clone().requires_grad_());
  return leaf_gradient_error([&] { return f(leaves); }, leaves, step);
}

/// `gradient_error` of the gradient itself, also with respect to the gradient that comes in.
inline double second_gradient_error(const Differentiable& f, const std::vector<Tensor>& inputs,
                                    double step = 1e-5) {
  std::vector<Tensor> all = inputs;
  all.push_back(probe_like(f(inputs)).contiguous());
  const Differentiable gradient = [&f](const std::vector<Tensor>& given) {
    std::vector<Tensor> leaves;
    for (std::size_t n = 0; n + 1 < given.size(); ++n) {
      leaves.push_back(given[n].requires_grad() ? given[n] : given[n].detach().requires_grad_());
    }
    const auto gradients =
        torch::autograd::grad({f(leaves)}, leaves, {given.back()}, true, /*create_graph=*/true);
    std::vector<Tensor> flat;
    for (const Tensor& g : gradients) flat.push_back(g.reshape({-1}));
    return at::cat(flat);
  };
  return gradient_error(gradient, all, step);
}

}  // namespace attnlab::testing
