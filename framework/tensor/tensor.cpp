// Descriptions of tensors for messages, and small collections of tensors by name.
#include "framework/tensor/tensor.h"

#include <fmt/format.h>

namespace attnlab {
namespace {

std::string dtype_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    case at::kLong:
      return "int64";
    case at::kInt:
      return "int32";
    case at::kShort:
      return "int16";
    case at::kChar:
      return "int8";
    case at::kByte:
      return "uint8";
    case at::kBool:
      return "bool";
    default:
      return c10::toString(dtype);
  }
}

}  // namespace

std::string describe(const Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  std::string text = "[";
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(tensor.size(i));
  }
  text += "] " + dtype_name(tensor.scalar_type());
  if (!tensor.device().is_cpu()) text += " on " + tensor.device().str();
  return text;
}

const Tensor* NamedTensors::find(std::string_view name) const {
  for (const auto& [key, tensor] : items_) {
    if (key == name) return &tensor;
  }
  return nullptr;
}

const Tensor& NamedTensors::at(std::string_view name) const {
  if (const Tensor* tensor = find(name)) return *tensor;
  std::string names;
  for (const auto& [key, tensor] : items_) names += (names.empty() ? "" : ", ") + key;
  throw ShapeError(fmt::format("no tensor named '{}'; there {}", name,
                               names.empty() ? "are none" : "is: " + names));
}

void NamedTensors::set(std::string_view name, Tensor tensor) {
  for (auto& [key, present] : items_) {
    if (key == name) {
      present = std::move(tensor);
      return;
    }
  }
  items_.emplace_back(std::string(name), std::move(tensor));
}

NamedTensors NamedTensors::to(const at::Device& device) const {
  NamedTensors moved;
  for (const auto& [name, tensor] : items_) {
    moved.items_.emplace_back(name, tensor.defined() ? tensor.to(device) : tensor);
  }
  return moved;
}

}  // namespace attnlab
