#include "runner/inspect/pixel_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/eval/segmentation/confusion.h"

namespace attnlab {
namespace {

constexpr double kMostPixels = 1 << 26;  ///< of an enlarged picture

/// A task of segmentation that is asked about single pictures.
class Asked final : public SegmentationTask {
 public:
  using SegmentationTask::scores_of;
  using SegmentationTask::SegmentationTask;
};

}  // namespace

PixelAnswers::PixelAnswers(const BuiltRun& run, const std::string& name) : run_(run) {
  if (dynamic_cast<const SegmentationTask*>(run.task.get()) == nullptr) {
    throw ConfigError(
        fmt::format("{}: its task is '{}', which does not predict a class for each pixel; take a "
                    "run of segmentation",
                    name, run.experiment.task.name));
  }
  options_ = read_options<SegmentationTaskOptions>(run.experiment.task.options);
}

LabelMap PixelAnswers::of(const std::string& name, const Tensor& picture, const PictureSize& size,
                          double most) const {
  const DatasetInfo& info = run_.dataset->info();
  const std::vector<std::int64_t>& own = info.field("image").shape;
  SegmentationTaskOptions options = options_;
  if (options.window == 0 && (picture.size(1) != own[1] || picture.size(2) != own[2])) {
    options.window = options.stride = std::min(own[1], own[2]);
  }
  const auto shorter = double(std::min(picture.size(1), picture.size(2)));
  const double grown = std::max(1.0, double(options.window) / shorter);
  if (grown > 1 && grown * grown * double(picture.size(1) * picture.size(2)) > kMostPixels) {
    throw DataError(fmt::format(
        "{}: {} x {} pixels are too narrow: enlarged to windows of {} it would have more than "
        "{:.0f} pixels; cut a part out of it",
        name, picture.size(2), picture.size(1), options.window, kMostPixels));
  }
  PictureSize seen = size;
  const double scores = double(size.height) * double(size.width) * double(info.classes);
  if (const double smaller = std::sqrt(most / scores); smaller < 1) {
    seen.height = std::max<std::int64_t>(1, std::int64_t(double(size.height) * smaller));
    seen.width = std::max<std::int64_t>(1, std::int64_t(double(size.width) * smaller));
  }
  const at::NoGradGuard no_gradients;
  const Asked task(options, {info}, run_.experiment.task.name);
  const Tensor answers =
      answers_of(task.scores_of(*run_.model, picture.to(run_.device), seen.height, seen.width), 0)
          .to(at::kCPU)
          .contiguous();
  LabelMap map(seen.height, seen.width);
  const auto* answer = answers.data_ptr<std::int64_t>();
  std::transform(answer, answer + answers.numel(), map.classes.begin(), [&](std::int64_t one) {
    return one < info.classes ? static_cast<std::int16_t>(one) : kUnlabelled;
  });
  return seen == size ? map : resized_labels(map, size);
}

}  // namespace attnlab
