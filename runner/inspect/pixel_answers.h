// What the model of a run of segmentation says of each pixel of a picture.
#pragma once

#include "framework/data/segmentation/label_map.h"
#include "framework/eval/segmentation/segmentation_task.h"
#include "framework/train/run.h"

namespace attnlab {

/// Sliding windows, scales and mirror images are those of the run's own evaluation. Where that asks
/// the model about whole pictures, which then all have one size, a picture of another size is asked
/// about by windows of those pictures' shorter side.
class PixelAnswers {
 public:
  /// @param run   must outlive it
  /// @param name  of the run, for messages   @throws ConfigError for one of another kind.
  PixelAnswers(const BuiltRun& run, const std::string& name);

  /// @param name     of the picture, for messages
  /// @param picture  [C, h, w] as the model sees it
  /// @param size     of the label map
  /// @param most     numbers that scores of all classes may be: beyond it answers are worked out at
  ///                 a smaller size, and enlarged
  /// @returns a class for each pixel; `kUnlabelled` where a score is not a number.
  /// @throws DataError for a picture so narrow that windows would have more than 2^26 pixels.
  LabelMap of(const std::string& name, const Tensor& picture, const PictureSize& size,
              double most = 1 << 28) const;

 private:
  const BuiltRun& run_;
  SegmentationTaskOptions options_;
};

}  // namespace attnlab
