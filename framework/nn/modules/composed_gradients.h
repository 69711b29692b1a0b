// Gradients of gradients for kernels that have none of their own: the same result once more, as
// operations that autograd can follow, and its gradients.
#pragma once

#include <torch/csrc/autograd/autograd.h>

#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// @param outputs    composed from `inputs`, with gradients on
/// @param gradients  of the outputs, undefined where nobody used one
/// @returns a gradient for each input, with a graph; undefined for one that takes none.
inline std::vector<Tensor> composed_gradients(const std::vector<Tensor>& outputs,
                                              const std::vector<Tensor>& inputs,
                                              const std::vector<Tensor>& gradients) {
  std::vector<Tensor> used, given, taking;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!gradients[i].defined() || !outputs[i].requires_grad()) continue;
    used.push_back(outputs[i]);
    given.push_back(gradients[i]);
  }
  for (const Tensor& input : inputs) {
    if (input.requires_grad()) taking.push_back(input);
  }
  const std::vector<Tensor> found = torch::autograd::grad(
      used, taking, given, /*retain_graph=*/true, /*create_graph=*/true, /*allow_unused=*/true);
  std::vector<Tensor> all(inputs.size());
  for (std::size_t i = 0, next = 0; i < inputs.size(); ++i) {
    if (inputs[i].requires_grad()) all[i] = found[next++];
  }
  return all;
}

}  // namespace attnlab
