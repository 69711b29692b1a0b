#include "plugins/tasks/points/point_segmentation/segmentation_meter.h"

#include <fmt/format.h>

#include "framework/eval/segmentation/confusion.h"

namespace attnlab {

SegmentationMeter::SegmentationMeter(std::vector<std::string> names) : names_(std::move(names)) {
  const auto classes = static_cast<std::int64_t>(names_.size());
  confusion_ = at::zeros({classes, classes + 1}, at::kLong);
}

void SegmentationMeter::add(const NamedTensors& outputs, const Batch& batch) {
  const auto classes = static_cast<std::int64_t>(names_.size());
  const Tensor given = outputs.at("logits@voxel").detach().to(at::kCPU);
  const Tensor inverse = batch.fields.at("inverse@point>voxel").to(at::kCPU);
  if (given.dim() != 2 || given.size(1) != classes || given.size(0) != rows_of(batch, "voxel")) {
    throw ShapeError(fmt::format("logits@voxel: expected [{}, {}], found {}",
                                 rows_of(batch, "voxel"), classes, describe(given)));
  }
  check_labels(batch.fields.at("label@point"), "label@point");
  check_labels(batch.fields.at("label@voxel"), "label@voxel");
  const Tensor logits = given.to(at::kDouble).index_select(0, inverse);
  if (batch.fields.find("view") != nullptr) return add_views(logits, batch);
  count(logits, batch.fields.at("label@point").to(at::kCPU));
}

void SegmentationMeter::check_labels(const Tensor& labels, const char* name) const {
  if (labels.numel() == 0 || labels.max().item<std::int64_t>() < confusion_.size(0)) return;
  throw DataError(
      fmt::format("{}: the batch has a label that is not below {}", name, confusion_.size(0)));
}

void SegmentationMeter::count(const Tensor& scores, const Tensor& labels) {
  count_answers(labels, answers_of(scores, 1), confusion_, "label@point");
}

void SegmentationMeter::add_views(const Tensor& logits, const Batch& batch) {
  const Tensor views = batch.fields.at("view").to(at::kCPU);
  const Tensor labels = batch.fields.at("label@point").to(at::kCPU);
  const auto* end = batch.offsets.at("point").data_ptr<std::int64_t>();
  for (std::int64_t b = 0; b < batch.size; ++b) {
    const Tensor part = logits.slice(0, end[b], end[b + 1]).softmax(1);
    const Tensor own = labels.slice(0, end[b], end[b + 1]);
    if (views[b].item<std::int64_t>() == 0) {
      if (sum_.defined()) count(sum_, sum_labels_);
      sum_ = part;
      sum_labels_ = own;
    } else if (!sum_.defined() || sum_.sizes() != part.sizes()) {
      throw DataError("view: a cloud's views must follow each other, with the same points");
    } else {
      sum_ = sum_ + part;
    }
  }
}

Metrics SegmentationMeter::result() const {
  if (!sum_.defined()) return segmentation_metrics(confusion_, names_);
  SegmentationMeter whole(names_);
  whole.confusion_ = confusion_.clone();
  whole.count(sum_, sum_labels_);
  return segmentation_metrics(whole.confusion_, names_);
}

}  // namespace attnlab
