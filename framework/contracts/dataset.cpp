#include "framework/contracts/dataset.h"

#include <cstring>

#include "framework/base/text.h"

namespace attnlab {
namespace {

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

[[noreturn]] void refuse(const std::string& field, std::size_t index, const Tensor& found,
                         const Tensor& expected) {
  throw DataError("field '" + field + "': example " + std::to_string(index) + " of the batch is " +
                  describe(found) + " where the first is " + describe(expected) +
                  "; a dataset of uneven shapes must override collate()");
}

/// The tensors of one field, stacked. Much cheaper than at::stack for many small tensors.
Tensor stack_field(const std::string& field, const std::vector<NamedTensors>& examples) {
  const Tensor& first = examples.front().at(field);
  std::vector<std::int64_t> shape = {static_cast<std::int64_t>(examples.size())};
  shape.insert(shape.end(), first.sizes().begin(), first.sizes().end());
  Tensor stacked = at::empty(shape, first.options());
  auto* out = static_cast<std::byte*>(stacked.data_ptr());
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const Tensor* tensor = examples[i].find(field);
    if (tensor == nullptr || examples[i].size() != examples.front().size()) {
      throw DataError("field '" + field + "': example " + std::to_string(i) +
                      " of the batch has the fields " + join(names_of(examples[i]), ", ") +
                      " where the first has " + join(names_of(examples.front()), ", "));
    }
    if (tensor->sizes() != first.sizes() || tensor->dtype() != first.dtype() ||
        !tensor->device().is_cpu()) {
      refuse(field, i, *tensor, first);
    }
    const Tensor dense = tensor->contiguous();
    if (dense.nbytes() > 0) std::memcpy(out, dense.data_ptr(), dense.nbytes());
    out += dense.nbytes();
  }
  return stacked;
}

}  // namespace

Batch slice(const Batch& batch, std::int64_t begin, std::int64_t size) {
  Batch part;
  part.size = size;
  for (const auto& [name, tensor] : batch.fields) {
    part.fields.set(name, tensor.narrow(0, begin, size));
  }
  return part;
}

Batch joined(const std::vector<Batch>& batches) {
  Batch all;
  if (batches.empty()) return all;
  for (const auto& [name, tensor] : batches.front().fields) {
    std::vector<Tensor> pieces;
    pieces.reserve(batches.size());
    for (const Batch& batch : batches) pieces.push_back(batch.fields.at(name));
    for (const Tensor& piece : pieces) {
      if (piece.sizes().slice(1) == tensor.sizes().slice(1)) continue;
      throw ShapeError("field '" + name + "': " + describe(piece) + " cannot stand after " +
                       describe(tensor) + " in one batch");
    }
    all.fields.set(name, at::cat(pieces));
  }
  for (const Batch& batch : batches) all.size += batch.size;
  return all;
}

std::string_view name_of(Split split) {
  switch (split) {
    case Split::train:
      return "train";
    case Split::validation:
      return "validation";
    case Split::test:
      return "test";
  }
  throw Error("Split has no value " + std::to_string(static_cast<int>(split)));
}

const FieldInfo& DatasetInfo::field(std::string_view wanted) const {
  std::vector<std::string> names;
  for (const FieldInfo& field : fields) {
    if (field.name == wanted) return field;
    names.push_back(field.name);
  }
  throw DataError("dataset '" + name + "' has no field '" + std::string(wanted) + "'; it has " +
                  (names.empty() ? "none" : join(names, ", ")));
}

Batch Dataset::collate(const std::vector<NamedTensors>& examples) const {
  Batch batch;
  batch.size = static_cast<std::int64_t>(examples.size());
  if (examples.empty()) return batch;
  for (const auto& [name, tensor] : examples.front()) {
    batch.fields.set(name, stack_field(name, examples));
  }
  return batch;
}

}  // namespace attnlab
