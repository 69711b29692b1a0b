// The narrow door to LibTorch: tensors and modules, and nothing slow to include.
// All differences between LibTorch versions live in nn/torch_compat.h.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/generated/variable_factories.h>
#include <torch/nn/module.h>
#include <torch/version.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/error.h"

namespace attnlab {

using at::Tensor;

/// "[2, 3, 4] float32": what error messages call a tensor ("undefined" for an undefined one).
std::string describe(const Tensor& tensor);

/// A few tensors by name, in order of insertion: the fields of a batch, the outputs of a model.
class NamedTensors {
 public:
  NamedTensors() = default;
  NamedTensors(std::initializer_list<std::pair<std::string, Tensor>> items) : items_(items) {}

  /// @throws ShapeError naming the names that exist.
  const Tensor& at(std::string_view name) const;
  /// Null when there is none of that name.
  const Tensor* find(std::string_view name) const;
  void set(std::string_view name, Tensor tensor);

  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  std::size_t size() const { return items_.size(); }
  /// Every tensor moved to a device (the same tensors where they are there already).
  NamedTensors to(const at::Device& device) const;

 private:
  std::vector<std::pair<std::string, Tensor>> items_;
};

}  // namespace attnlab
