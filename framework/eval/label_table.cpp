#include "framework/eval/label_table.h"

#include <fmt/format.h>

#include <cmath>

namespace attnlab {
namespace {

const Tensor& checked_labels(const Tensor& logits, const Batch& batch) {
  const Tensor& labels = batch.fields.at("labels");
  if (logits.dim() == 2 && logits.is_floating_point() && labels.is_floating_point() &&
      labels.sizes() == logits.sizes()) {
    return labels;
  }
  throw ShapeError(fmt::format("logits and labels must be [B, T] floating point, found {} and {}",
                               describe(logits), describe(labels)));
}

}  // namespace

const FieldInfo& labels_of(const DatasetInfo& data) {
  const FieldInfo& labels = data.field("labels");
  if (labels.shape.size() == 1 && labels.shape[0] > 0 && at::isFloatingType(labels.dtype)) {
    return labels;
  }
  throw DataError(fmt::format(
      "dataset '{}': labels must be [T] floating point of each example, NaN where not known",
      data.name));
}

KnownLabels known_labels(const NamedTensors& outputs, const Batch& batch) {
  const Tensor& logits = outputs.at("logits");
  const Tensor labels = checked_labels(logits, batch);
  const Tensor known = labels.isnan().logical_not_().flatten().nonzero().squeeze(1);
  return {logits.flatten().index_select(0, known),
          labels.flatten().index_select(0, known).to(logits.scalar_type())};
}

double count_known_labels(const Batch& batch) {
  return batch.fields.at("labels").isnan().logical_not_().sum().item<double>();
}

void LabelColumns::add(const NamedTensors& outputs, const Batch& batch) {
  const Tensor& given = outputs.at("logits");
  const Tensor labels = checked_labels(given, batch).to(at::kCPU, at::kDouble).contiguous();
  const Tensor logits = given.detach().to(at::kCPU, at::kDouble).contiguous();
  targets_.resize(static_cast<std::size_t>(labels.size(1)));
  const double *label = labels.data_ptr<double>(), *output = logits.data_ptr<double>();
  for (std::int64_t i = 0; i < labels.size(0); ++i) {
    for (std::vector<Entry>& target : targets_) {
      if (!std::isnan(*label)) target.push_back({*output, *label});
      ++label, ++output;
    }
  }
}

const std::vector<std::vector<LabelColumns::Entry>>& LabelColumns::targets() const {
  if (targets_.empty()) throw Error("evaluation: no examples were given; is the split empty?");
  return targets_;
}

}  // namespace attnlab
