// Intersections over unions of points, from a confusion matrix.
//
//   IoU_c = TP / (TP + FP + FN),   acc_c = TP / (TP + FN)
//   miou, macc = their means over classes that occur among labels or answers (acc: among labels)
#pragma once

#include <string>
#include <vector>

#include "framework/contracts/task.h"

namespace attnlab {

/// @param confusion  [K, K] int64: points of class i (rows) that were called j; or [K, K + 1], the
///                   last column for points that have no answer
/// @returns miou, macc, accuracy, and iou_NAME of each class; of a class that neither occurs nor is
/// answered 0, which counts in no mean.
Metrics segmentation_metrics(const Tensor& confusion, const std::vector<std::string>& names);

/// Reads logits@voxel, inverse@point>voxel and label@point; negative labels do not count. Where
/// there is a field `view`, the probabilities of a cloud's views, which follow each other, are
/// added up before it is judged.
class SegmentationMeter final : public Meter {
 public:
  explicit SegmentationMeter(std::vector<std::string> names);
  void add(const NamedTensors& outputs, const Batch& batch) override;
  /// @throws Error where no point was counted.
  Metrics result() const override;

 private:
  /// Judges points. @param scores  [N, K], the largest is the answer @param labels  [N]
  void count(const Tensor& scores, const Tensor& labels);
  void check_labels(const Tensor& labels, const char* name) const;
  void add_views(const Tensor& logits, const Batch& batch);

  std::vector<std::string> names_;
  Tensor confusion_;         ///< [K, K + 1] int64; the last column: logits that are not numbers
  Tensor sum_, sum_labels_;  ///< of the views of a cloud that is not complete
};

}  // namespace attnlab
