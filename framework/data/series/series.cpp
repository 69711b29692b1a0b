#include "framework/data/series/series.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace attnlab {
namespace {

/// [L, ...] of each example to [B, longest, ...], zero behind its end.
Tensor padded(const std::string& field, const std::vector<NamedTensors>& examples,
              std::int64_t longest) {
  const Tensor& first = examples.front().at(field);
  std::vector<std::int64_t> shape = {static_cast<std::int64_t>(examples.size()), longest};
  shape.insert(shape.end(), first.sizes().begin() + 1, first.sizes().end());
  Tensor out = at::zeros(shape, first.options());
  auto* row = static_cast<std::byte*>(out.data_ptr());
  for (const NamedTensors& example : examples) {
    const Tensor values = example.at(field).contiguous();
    if (values.dim() != first.dim() || values.dtype() != first.dtype() ||
        values.sizes().slice(1) != first.sizes().slice(1)) {
      throw DataError(
          fmt::format("field '{}': an example of the batch is {} where the first is {}; only "
                      "lengths may differ",
                      field, describe(values), describe(first)));
    }
    if (values.nbytes() > 0) std::memcpy(row, values.data_ptr(), values.nbytes());
    row += out.nbytes() / examples.size();
  }
  return out;
}

}  // namespace

Batch collate_series(const std::vector<NamedTensors>& examples, std::int64_t least) {
  Batch batch;
  batch.size = static_cast<std::int64_t>(examples.size());
  if (examples.empty()) return batch;
  std::int64_t longest = least;
  for (const NamedTensors& one : examples) {
    longest = std::max(longest, one.at("series").size(0));
  }
  for (const auto& [name, tensor] : examples.front()) {
    const std::string& field = name;
    if (field == "series" || field == "valid") {
      batch.fields.set(field, padded(field, examples, longest));
      continue;
    }
    std::vector<Tensor> values;
    values.reserve(examples.size());
    for (const NamedTensors& one : examples) values.push_back(one.at(field));
    batch.fields.set(field, at::stack(values));
  }
  return batch;
}

}  // namespace attnlab
