// What tasks of segmentation have in common: the loss of masks, and answers for every pixel.
//
//   z    = the masks' logits, resized to the picture's size: bilinear, corners not aligned
//   loss = cross_entropy CE(z) + lovasz Lovász-softmax(z) + dice Dice(z),  over labelled pixels
//
// Lovász's and Dice's losses are those of each picture, in the mean by their labelled pixels, so
// that parts of a step add up to the whole.
//
// An answer for a picture: at each scale, as it is and with `flip` mirrored, the logits of sliding
// windows are put together (windows.h; a picture whose shorter side is shorter than a window is
// enlarged to it) and resized to the label map's own size; over several of these the mean of the
// softmax counts. Metrics (confusion.h) count each labelled pixel of the split once.
// Source: Strudel et al., Segmenter, ICCV 2021, and its public code. Cost: a pass of the model for
// each window, and K numbers a pixel.
#pragma once

#include <functional>

#include "framework/config/options.h"
#include "framework/contracts/task.h"

namespace attnlab {

struct SegmentationTaskOptions {
  double cross_entropy = 1, lovasz = 0, dice = 0;
  double label_smoothing = 0;
  std::int64_t window = 0, stride = 0;
  std::vector<double> scales = {1};
  bool flip = false;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("cross_entropy", cross_entropy, at_least(0), "weight of the cross entropy");
    v("lovasz", lovasz, at_least(0), "weight of the Lovász-softmax loss");
    v("dice", dice, at_least(0), "weight of the soft Dice loss");
    v("label_smoothing", label_smoothing, range(0, 0.99),
      "share of the target spread over all classes, in the cross entropy");
    v("window", window, range(0, 8192),
      "side of evaluation windows in pixels; 0: the whole picture at once");
    v("stride", stride, range(0, 8192), "pixels from one window to the next; 0: the window's side");
    v("scales", scales, range(0.05, 20),
      "factors of a picture's size in evaluation; the answers are averaged");
    v("flip", flip, "evaluation averages over each picture and its mirror image");
  }
};

class SegmentationTask : public Task {
 public:
  /// @param name  of the task, for messages
  /// @throws OptionError; DataError for a dataset without classes that have names, or without label
  ///         maps.
  SegmentationTask(const SegmentationTaskOptions& options, const TaskSetup& setup,
                   const std::string& name);

  Tensor step(TrainingStep& step) override;
  /// Reads the output "mask_logits" [B, K, h, w] and the fields "label_map" [B, H, W], "size".
  Tensor loss(const NamedTensors& outputs, const Batch& batch) const override;
  /// Pixels that have a label.
  double weight(const Batch& batch) const override;
  std::vector<MetricInfo> metrics() const override;
  Metrics evaluate(Evaluation& evaluation) const override;

 protected:
  /// What a picture goes through before the model sees it, [C, h, w]; empty: nothing.
  using PictureChange = std::function<Tensor(const Tensor& picture)>;

  const std::vector<std::string>& names() const { return names_; }
  /// [K, K + 1] int64 of zeros.
  Tensor no_answers() const;
  /// Adds the answers for a batch to a confusion matrix.
  void add_answers(Model& model, const Batch& batch, const PictureChange& change,
                   const Tensor& confusion) const;
  /// Logits, or summed probabilities, for a picture. @returns [K, height, width].
  Tensor scores_of(Model& model, const Tensor& picture, std::int64_t height,
                   std::int64_t width) const;

 private:
  Tensor loss_of(
      const NamedTensors& outputs, const Batch& batch,
      const std::function<void(std::string_view part, const Tensor& value)>& record) const;
  /// Logits of pictures [N, C, h, w], at their size.
  Tensor logits_of(Model& model, const Tensor& pictures) const;
  /// Whether a batch can go through the model as it is.
  bool takes_whole_batches() const;
  const Tensor& checked(const NamedTensors& outputs, std::int64_t pictures) const;

  SegmentationTaskOptions options_;
  std::vector<std::string> names_;
};

}  // namespace attnlab
