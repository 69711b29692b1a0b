// The confusion matrix of points (framework/eval/segmentation/confusion.h), from what a model says
// of voxels.
#pragma once

#include <string>
#include <vector>

#include "framework/contracts/task.h"

namespace attnlab {

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
