// What a detector found, over a whole split, judged class by class.
//
//   ap, ap50, ap75                   COCO's rules (coco_precision.h): mean over IoU 0.5 to 0.95, at
//                                    0.5, at 0.75; the mean over classes that have boxes
//   ap_small, ap_medium, ap_large    of boxes up to 32^2, up to 96^2, and of larger ones
//   ap50_GROUP, ap_GROUP             over the classes of a group of the dataset: base, novel
//   ap50_CLASS                       of one class
//   ap50_per_image                   AP50 of each image and class by itself, the answers to all its
//                                    prompts ranked together; then the mean over the images of a
//                                    class, then over classes: what published code of one-shot
//                                    detection calls AP50. Images without the class do not count
//   ap50_per_image_GROUP, _CLASS     the same over the classes of a group, and of one class
// What no box says anything of is 0 (a class without boxes, no large ones), where pycocotools says
// -1; means over classes leave it out. With several prompts an image and class, the prompts of one
// number make one round; all metrics but ap50_per_image are means over rounds.
// Source of ap50_per_image: `evaluateall` in IA-DETR's public code (Bahaduri et al.), which takes
// precision between its 101 recalls linearly; here it is COCO's, as everywhere.
#pragma once

#include <map>

#include "framework/contracts/task.h"
#include "framework/eval/detection/coco_precision.h"

namespace attnlab {

/// @throws DataError for a class, a kind or a number of a prompt that the dataset says it has not.
void check_categories(const Batch& batch, const DatasetInfo& data);

/// What `DetectionMeter` measures. @param one_shot  with ap50_per_image, of each group and class,
/// too
std::vector<MetricInfo> detection_metrics(const DatasetInfo& data, bool one_shot);

/// Reads `logits` [B, Q, K] and `boxes` [B, Q, 4] centred, in shares of the image; box@box, corners
/// in shares, label@box, area@box, ignored@box, and size [B, 2]: height and width in pixels. In
/// one-shot detection, prompt_class, prompt_number and image_id [B], too; then K is 1, and only
/// boxes of the prompt's class are looked for.
class DetectionMeter final : public Meter {
 public:
  /// @param most  answers of an image that count
  DetectionMeter(const DatasetInfo& data, bool one_shot, std::int64_t most);
  void add(const NamedTensors& outputs, const Batch& batch) override;
  Metrics result() const override;

 private:
  /// What was found of a class, image by image.
  struct OfClass {
    std::vector<ClassInImage> images;
    std::vector<std::int64_t> ids;  ///< of the images; one-shot alone
  };
  using Classes = std::map<std::int64_t, OfClass>;

  /// AP50 of each image by itself, over all its prompts; the mean of a class's images by class.
  std::map<std::int64_t, double> per_image() const;

  const DatasetInfo data_;
  const std::vector<std::string> names_;
  bool one_shot_;
  std::int64_t most_;
  std::map<std::int64_t, Classes> rounds_;
};

}  // namespace attnlab
