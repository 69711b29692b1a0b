// What tasks of detection have in common: objects of a batch, the loss, and the metrics.
#pragma once

#include "framework/eval/detection/detection_loss.h"
#include "framework/eval/detection/detection_meter.h"

namespace attnlab {

struct DetectionTaskOptions : DetectionLossOptions {
  std::int64_t answers = 100;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("answers", answers, at_least(1), "predictions per image that count, the best ones");
    DetectionLossOptions::describe(v);
  }
};

class DetectionTask : public Task {
 public:
  /// @param one_shot  only objects of the prompt's class are asked for, and there is one column of
  ///                  logits; else there is one for each class
  /// @throws DataError for a dataset without classes that have names.
  DetectionTask(const DetectionTaskOptions& options, const TaskSetup& setup, bool one_shot);

  Tensor step(TrainingStep& step) override;
  Tensor loss(const NamedTensors& outputs, const Batch& batch) const override;
  /// Objects that are asked for, at least 1.
  double weight(const Batch& batch) const override;
  std::vector<MetricInfo> metrics() const override;
  std::unique_ptr<Meter> meter() const override;

 private:
  Tensor loss_of(const NamedTensors& outputs, const Batch& batch, const RecordLoss& record) const;

  DetectionTaskOptions options_;
  DatasetInfo data_;
  bool one_shot_;
};

/// The objects of a batch. Ignored boxes are none.
/// @param one_shot  those of the prompt's class, as column 0
Objects objects_of(const Batch& batch, bool one_shot);
/// Those of every class, as column 0.
Objects any_objects_of(const Batch& batch);

}  // namespace attnlab
