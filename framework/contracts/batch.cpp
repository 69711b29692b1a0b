#include "framework/contracts/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "framework/base/text.h"
#include "framework/tensor/kept_memory.h"

namespace attnlab {
namespace {

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

const std::int64_t* numbers_of(const Tensor& offsets) { return offsets.data_ptr<std::int64_t>(); }

/// Adds to every value that is a row; what is negative stays.
Tensor shifted(const Tensor& rows, std::int64_t by) {
  return by == 0 ? rows : at::where(rows.lt(0), rows, rows + by);
}

// --- collating --------------------------------------------------------------------------------

[[noreturn]] void refuse(const std::string& field, std::size_t index, const std::string& why) {
  throw DataError(fmt::format("field '{}': example {} of the batch {}", field, index, why));
}

/// One field of examples that all have the same fields.
class FieldOfExamples {
 public:
  FieldOfExamples(const std::string& field, const std::vector<NamedTensors>& examples)
      : field_(field) {
    tensors_.reserve(examples.size());
    for (std::size_t i = 0; i < examples.size(); ++i) {
      const Tensor* tensor = examples[i].find(field);
      if (tensor == nullptr || examples[i].size() != examples.front().size()) {
        refuse(
            field, i,
            fmt::format("has the fields {} where the first has {}",
                        join(names_of(examples[i]), ", "), join(names_of(examples.front()), ", ")));
      }
      tensors_.push_back(tensor);
    }
  }

  /// [B, ...]: examples of one shape. Much cheaper than at::stack for many small tensors.
  Tensor stacked() const {
    std::vector<std::int64_t> shape = {count()};
    shape.insert(shape.end(), first().sizes().begin(), first().sizes().end());
    Tensor out = made(shape);
    auto* to = static_cast<std::byte*>(out.data_ptr());
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      check(i, tensors_[i]->sizes() == first().sizes());
      to = copy(*tensors_[i], to);
    }
    return out;
  }

  /// [sum of rows, ...].
  /// @param target  the offsets of the axis whose rows the values are; null: plain values
  Tensor end_to_end(const Tensor* target) const {
    std::int64_t rows = 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) rows += row_count(i);
    std::vector<std::int64_t> shape = first().sizes().vec();
    shape[0] = rows;
    Tensor out = made(shape);
    auto* to = static_cast<std::byte*>(out.data_ptr());
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      check(i, tensors_[i]->sizes().slice(1) == first().sizes().slice(1));
      to = target == nullptr ? copy(*tensors_[i], to) : copy_rows(i, *target, to);
    }
    return out;
  }

  std::int64_t row_count(std::size_t i) const {
    if (tensors_[i]->dim() > 0) return tensors_[i]->size(0);
    refuse(field_, i, fmt::format("is {}, which has no rows for its axis", describe(*tensors_[i])));
  }

  bool uneven() const {
    return std::any_of(tensors_.begin(), tensors_.end(),
                       [&](const Tensor* tensor) { return tensor->sizes() != first().sizes(); });
  }

  /// [B, ...], zeros behind what is shorter in the dimensions that `info` marks with -1.
  /// @param valid  where wanted, [B, those dimensions] bool, true = real
  Tensor padded(const FieldInfo& info, Tensor* valid) const {
    std::vector<std::int64_t> shape = first().sizes().vec(), marked = {count()};
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      check(i, tensors_[i]->dim() == first().dim());
      for (std::size_t d = 0; d < shape.size(); ++d) {
        const std::int64_t size = tensors_[i]->size(std::int64_t(d));
        check(i, size == shape[d] || info.shape.at(d) == -1);
        shape[d] = std::max(shape[d], size);
      }
    }
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (info.shape[d] == -1) marked.push_back(shape[d]);
    }
    shape.insert(shape.begin(), count());
    Tensor out = made(shape).zero_();
    if (valid != nullptr) *valid = at::zeros(marked, at::kBool);
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      Tensor part = out[std::int64_t(i)], real;
      if (valid != nullptr) real = (*valid)[std::int64_t(i)];
      for (std::int64_t d = 0, m = 0; d < part.dim(); ++d) {
        const std::int64_t size = tensors_[i]->size(d);
        part = part.narrow(d, 0, size);
        if (valid != nullptr && info.shape[std::size_t(d)] == -1) real = real.narrow(m++, 0, size);
      }
      part.copy_(*tensors_[i]);
      if (valid != nullptr) real.fill_(true);
    }
    return out;
  }

 private:
  const Tensor& first() const { return *tensors_.front(); }
  std::int64_t count() const { return static_cast<std::int64_t>(tensors_.size()); }

  void check(std::size_t i, bool fits) const {
    const Tensor& tensor = *tensors_[i];
    if (fits && tensor.dtype() == first().dtype() && tensor.device().is_cpu()) return;
    refuse(field_, i,
           fmt::format("is {} where the first is {}; mark dimensions that differ with -1 in the "
                       "dataset's fields, or override collate()",
                       describe(tensor), describe(first())));
  }

  Tensor made(c10::IntArrayRef shape) const { return empty_kept(shape, first().scalar_type()); }

  static std::byte* copy(const Tensor& tensor, std::byte* to) {
    const Tensor dense = tensor.contiguous();
    if (dense.nbytes() > 0) std::memcpy(to, dense.data_ptr(), dense.nbytes());
    return to + dense.nbytes();
  }

  /// Values that are rows of an axis, counted from the batch's first; what is negative stays.
  std::byte* copy_rows(std::size_t i, const Tensor& target, std::byte* to) const {
    if (tensors_[i]->scalar_type() != at::kLong) {
      refuse(field_, i, fmt::format("is {}; rows of an axis are int64", describe(*tensors_[i])));
    }
    const std::int64_t begin = numbers_of(target)[i], rows = numbers_of(target)[i + 1] - begin;
    const Tensor dense = tensors_[i]->contiguous();
    const std::int64_t* from = dense.data_ptr<std::int64_t>();
    auto* out = reinterpret_cast<std::int64_t*>(to);
    for (std::int64_t k = 0; k < dense.numel(); ++k) {
      if (from[k] >= rows) {
        refuse(field_, i,
               fmt::format("names row {} of axis '{}', which has {} in that example", from[k],
                           parse_field_name(field_).target, rows));
      }
      out[k] = from[k] < 0 ? from[k] : from[k] + begin;
    }
    return to + dense.nbytes();
  }

  const std::string& field_;
  std::vector<const Tensor*> tensors_;
};

const FieldInfo* info_of(const std::vector<FieldInfo>& fields, const std::string& name) {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const FieldInfo& field) { return field.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

/// Whether a field with shapes that differ may be padded.
bool may_pad(const FieldInfo* info, const Tensor& tensor) {
  return info != nullptr && static_cast<std::int64_t>(info->shape.size()) == tensor.dim() &&
         std::count(info->shape.begin(), info->shape.end(), -1) > 0;
}

/// The offsets of every axis, from the rows of its fields.
NamedTensors offsets_of(const std::vector<NamedTensors>& examples) {
  NamedTensors offsets;
  for (const auto& [name, tensor] : examples.front()) {
    const FieldName parsed = parse_field_name(name);
    if (parsed.axis.empty()) continue;
    const FieldOfExamples field(name, examples);
    const Tensor own = at::zeros({std::int64_t(examples.size()) + 1}, at::kLong);
    auto* ends = own.data_ptr<std::int64_t>();
    for (std::size_t i = 0; i < examples.size(); ++i) ends[i + 1] = ends[i] + field.row_count(i);
    const Tensor* before = offsets.find(parsed.axis);
    if (before != nullptr && !before->equal(own)) {
      throw DataError(fmt::format(
          "field '{}' has other rows than the fields of axis '{}' before it", name, parsed.axis));
    }
    if (before == nullptr) offsets.set(std::string(parsed.axis), own);
  }
  return offsets;
}

/// The offsets of the axis whose rows a field holds; null for plain values.
const Tensor* target_of(const std::string& name, const FieldName& parsed,
                        const NamedTensors& offsets) {
  if (parsed.target.empty()) return nullptr;
  const Tensor* target = offsets.find(parsed.target);
  if (target != nullptr) return target;
  throw DataError(
      fmt::format("field '{}' holds rows of axis '{}', but no field lies along that axis", name,
                  parsed.target));
}

}  // namespace

FieldName parse_field_name(std::string_view name) {
  const std::size_t at = name.find('@');
  FieldName parsed{name.substr(0, at), {}, {}};
  bool whole = !parsed.base.empty();
  if (at != std::string_view::npos) {
    parsed.axis = name.substr(at + 1);
    const std::size_t arrow = parsed.axis.find('>');
    if (arrow != std::string_view::npos) {
      parsed.target = parsed.axis.substr(arrow + 1);
      parsed.axis = parsed.axis.substr(0, arrow);
      whole = whole && !parsed.target.empty();
    }
    whole = whole && !parsed.axis.empty();
  }
  for (const std::string_view part : {parsed.base, parsed.axis, parsed.target}) {
    whole = whole && part.find_first_of("@>") == std::string_view::npos;
  }
  if (whole) return parsed;
  throw DataError(
      fmt::format("'{}' is not a field's name: expected NAME, NAME@AXIS or NAME@AXIS>AXIS", name));
}

std::int64_t rows_of(const Batch& batch, std::string_view axis) {
  const Tensor* offsets = batch.offsets.find(axis);
  if (offsets != nullptr) return numbers_of(*offsets)[offsets->numel() - 1];
  throw ShapeError(
      fmt::format("the batch has no axis '{}'; it has {}", axis,
                  batch.offsets.size() == 0 ? "none" : join(names_of(batch.offsets), ", ")));
}

Batch slice(const Batch& batch, std::int64_t begin, std::int64_t size) {
  Batch part;
  part.size = size;
  part.continues = batch.continues;
  for (const auto& [axis, offsets] : batch.offsets) {
    const Tensor own = offsets.narrow(0, begin, size + 1);
    part.offsets.set(axis, own - own[0]);
  }
  const auto row = [&](std::string_view axis, std::int64_t example) {
    return numbers_of(batch.offsets.at(axis))[example];
  };
  for (const auto& [name, tensor] : batch.fields) {
    if (batch.offsets.size() == 0) {  // the common case needs no names
      part.fields.set(name, tensor.narrow(0, begin, size));
      continue;
    }
    const FieldName field = parse_field_name(name);
    if (field.axis.empty()) {
      part.fields.set(name, tensor.narrow(0, begin, size));
      continue;
    }
    const std::int64_t first = row(field.axis, begin);
    Tensor rows = tensor.narrow(0, first, row(field.axis, begin + size) - first);
    if (!field.target.empty()) rows = shifted(rows, -row(field.target, begin));
    part.fields.set(name, rows);
  }
  return part;
}

Batch joined(const std::vector<Batch>& batches) {
  Batch all;
  if (batches.empty()) return all;
  all.continues = batches.front().continues;
  for (const Batch& batch : batches) all.size += batch.size;
  NamedTensors begins;  // of each axis: the first row of each batch
  for (const auto& [axis, offsets] : batches.front().offsets) {
    std::vector<Tensor> pieces = {at::zeros({1}, at::kLong)};
    std::vector<std::int64_t> starts;
    std::int64_t rows = 0;
    for (const Batch& batch : batches) {
      starts.push_back(rows);
      pieces.push_back(batch.offsets.at(axis).slice(0, 1) + rows);
      rows += rows_of(batch, axis);
    }
    all.offsets.set(axis, at::cat(pieces));
    begins.set(axis, at::tensor(starts, at::kLong));
  }
  for (const auto& [name, tensor] : batches.front().fields) {
    const FieldName field = parse_field_name(name);
    std::vector<Tensor> pieces;
    pieces.reserve(batches.size());
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const Tensor& piece = batches[i].fields.at(name);
      if (piece.sizes().slice(1) != tensor.sizes().slice(1)) {
        throw ShapeError(fmt::format("field '{}': {} cannot stand after {} in one batch", name,
                                     describe(piece), describe(tensor)));
      }
      pieces.push_back(
          field.target.empty() ? piece : shifted(piece, numbers_of(begins.at(field.target))[i]));
    }
    all.fields.set(name, at::cat(pieces));
  }
  return all;
}

Batch to_device(const Batch& batch, const at::Device& device) {
  if (device.is_cpu()) return batch;
  return {batch.fields.to(device), batch.size, batch.offsets, batch.continues};
}

Batch collated(const std::vector<NamedTensors>& examples, const std::vector<FieldInfo>& fields) {
  Batch batch;
  batch.size = static_cast<std::int64_t>(examples.size());
  if (examples.empty()) return batch;
  batch.offsets = offsets_of(examples);
  for (const auto& [name, tensor] : examples.front()) {
    const FieldOfExamples field(name, examples);
    const FieldName parsed = parse_field_name(name);
    if (!parsed.axis.empty()) {
      batch.fields.set(name, field.end_to_end(target_of(name, parsed, batch.offsets)));
      continue;
    }
    const FieldInfo* info = info_of(fields, name);
    const bool marks = info_of(fields, name + "_valid") != nullptr && may_pad(info, tensor);
    if (!marks && !(may_pad(info, tensor) && field.uneven())) {
      batch.fields.set(name, field.stacked());
      continue;
    }
    Tensor valid;
    batch.fields.set(name, field.padded(*info, marks ? &valid : nullptr));
    if (marks) batch.fields.set(name + "_valid", valid);
  }
  return batch;
}

}  // namespace attnlab
