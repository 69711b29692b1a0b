#include "plugins/tasks/points/point_segmentation/segmentation_meter.h"

#include <fmt/format.h>

namespace attnlab {

Metrics segmentation_metrics(const Tensor& confusion, const std::vector<std::string>& names) {
  const Tensor counts = confusion.to(at::kDouble), right = counts.diagonal();
  const Tensor labelled = counts.sum(1), answered = counts.narrow(1, 0, counts.size(0)).sum(0);
  const Tensor together = labelled + answered - right;
  double iou_sum = 0, accuracy_sum = 0;
  int ious = 0, accuracies = 0;
  Metrics metrics;
  for (std::size_t c = 0; c < names.size(); ++c) {
    const auto at = static_cast<std::int64_t>(c);
    const auto of = [&](const Tensor& x) { return x[at].item<double>(); };
    const double iou = of(together) > 0 ? of(right) / of(together) : 0;
    metrics["iou_" + names[c]] = iou;
    if (of(together) > 0) ++ious;
    iou_sum += iou;
    if (of(labelled) == 0) continue;
    ++accuracies;
    accuracy_sum += of(right) / of(labelled);
  }
  const double points = counts.sum().item<double>();
  if (points == 0) throw Error("evaluation: no point with a label was given; is the split empty?");
  metrics["miou"] = iou_sum / ious;
  metrics["macc"] = accuracy_sum / accuracies;
  metrics["accuracy"] = right.sum().item<double>() / points;
  return metrics;
}

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
  const Tensor counted = labels.ge(0);
  const Tensor here = labels.masked_select(counted);
  const std::int64_t classes = confusion_.size(0);
  const Tensor none = scores.isnan().any(1);  // no answer: the largest of them would be class 0
  const Tensor answers = scores.argmax(1).masked_fill(none, classes).masked_select(counted);
  confusion_ +=
      (here * (classes + 1) + answers).bincount({}, classes * (classes + 1)).view_as(confusion_);
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
