#include "framework/eval/detection/detection_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "framework/nn/boxes/boxes.h"

namespace attnlab {
namespace {

/// The rows of axis `box` that a mask keeps. @param kept  [N] bool
Objects kept_objects(const Batch& batch, const Tensor& kept, bool in_column_0) {
  const Tensor rows = kept.nonzero().squeeze(1);
  const Tensor classes = batch.fields.at("label@box").index_select(0, rows);
  Objects objects;
  objects.boxes = centred_of(batch.fields.at("box@box").index_select(0, rows));
  objects.labels = in_column_0 ? at::zeros_like(classes) : classes;
  objects.kinds = classes;
  const Tensor before =
      at::cat({at::zeros({1}, at::kLong), kept.to(at::kCPU, at::kLong).cumsum(0)});
  const Tensor starts = before.index_select(0, batch.offsets.at("box"));
  objects.starts.assign(starts.data_ptr<std::int64_t>(),
                        starts.data_ptr<std::int64_t>() + starts.size(0));
  return objects;
}

Tensor counted(const Batch& batch) { return batch.fields.at("ignored@box").eq(0); }

/// Of each box whether it is of its example's class.
Tensor of_prompt(const Batch& batch) {
  const Tensor lengths = batch.offsets.at("box").diff().to(batch.fields.at("label@box").device());
  const Tensor wanted = batch.fields.at("prompt_class").repeat_interleave(lengths);
  return batch.fields.at("label@box").eq(wanted);
}

}  // namespace

Objects objects_of(const Batch& batch, bool one_shot) {
  if (!one_shot) return kept_objects(batch, counted(batch), false);
  return kept_objects(batch, counted(batch).logical_and(of_prompt(batch)), true);
}

Objects any_objects_of(const Batch& batch) { return kept_objects(batch, counted(batch), true); }

DetectionTask::DetectionTask(const DetectionTaskOptions& options, const TaskSetup& setup,
                             bool one_shot)
    : options_(options), data_(setup.data), one_shot_(one_shot) {
  if (data_.classes < 1 || data_.classes != std::int64_t(data_.class_names.size())) {
    throw DataError("dataset '" + data_.name + "' has no classes with names to find");
  }
  std::set<std::string> names;
  for (const MetricInfo& metric : detection_metrics(data_, one_shot)) {
    if (names.insert(metric.name).second) continue;
    throw DataError(
        fmt::format("dataset '{}': two of its classes and groups have the metric {}; "
                    "rename one of them in its annotations",
                    data_.name, metric.name));
  }
}

Tensor DetectionTask::step(TrainingStep& step) {
  ForwardPass pass;
  pass.carried = step.carried;
  return loss_of(step.model.forward(step.batch, pass), step.batch, step.record);
}

Tensor DetectionTask::loss(const NamedTensors& outputs, const Batch& batch) const {
  return loss_of(outputs, batch, {});
}

Tensor DetectionTask::loss_of(const NamedTensors& outputs, const Batch& batch,
                              const RecordLoss& record) const {
  const Tensor& logits = outputs.at("logits");
  const std::int64_t columns = one_shot_ ? 1 : data_.classes;
  if (logits.dim() != 3 || logits.size(2) != columns) {
    throw ShapeError("detection: expected logits [B, Q, " + std::to_string(columns) + "], found " +
                     describe(logits));
  }
  // To read numbers of another device would wait for it; the meter reads them anyway.
  if (logits.device().is_cpu()) check_categories(batch, data_);
  return detection_loss(outputs, objects_of(batch, one_shot_), any_objects_of(batch), options_,
                        record);
}

double DetectionTask::weight(const Batch& batch) const {
  Tensor asked = counted(batch);
  if (one_shot_) asked = asked.logical_and(of_prompt(batch));
  return std::max(1.0, asked.sum().item<double>());
}

std::vector<MetricInfo> DetectionTask::metrics() const {
  return detection_metrics(data_, one_shot_);
}

std::unique_ptr<Meter> DetectionTask::meter() const {
  return std::make_unique<DetectionMeter>(data_, one_shot_, options_.answers);
}

}  // namespace attnlab
