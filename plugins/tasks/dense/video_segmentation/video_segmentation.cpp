// Video object segmentation by frozen features: the masks of a video's first frame are carried on.
//
// How labels are carried: label_propagation.h, with the patches of one layer. What is measured:
// region_boundary.h, J and F of each object in each frame but the first, which is given, and the
// last. The objects are those of the first mask, up to its largest number; pixels without a label
// are background. All metrics are means over the objects of all videos:
//
//   jf_mean = (j_mean + f_mean) / 2      j_mean, j_recall, j_decay, f_mean, f_recall, f_decay
//
// Source: Pont-Tuset et al., The 2017 DAVIS Challenge, arXiv:1704.00675 (semi-supervised); Caron et
// al., DINO, ICCV 2021; Zhou et al., iBOT, ICLR 2022; their public code. Cost: a forward pass a
// frame, and what the two headers say.
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <optional>
#include <tuple>

#include "framework/eval/probe_task.h"
#include "framework/plugin.h"
#include "framework/tensor/narrow.h"
#include "plugins/tasks/dense/video_segmentation/label_propagation.h"
#include "plugins/tasks/dense/video_segmentation/region_boundary.h"

namespace attnlab {
namespace {

struct VideoSegmentationOptions {
  std::int64_t layer = -1;
  std::int64_t frames = 7, neighbours = 5, radius = 12;
  double temperature = 0.1;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("layer", layer, range(-1000, 1000),
      "layer whose patches are compared: 1 is the first, -1 the last");
    v("frames", frames, range(0, 1000),
      "earlier frames that give labels to a frame, beside the first frame");
    v("neighbours", neighbours, range(1, 10000), "patches that a patch takes its label from");
    v("radius", radius, range(0, 10000),
      "rows and columns within which these patches lie; 0: no limit");
    v("temperature", temperature, range(1e-3, 1e3), "temperature of the softmax over similarities");
  }

  PropagationRule rule() const { return {frames, neighbours, radius, temperature}; }
};

/// J and F of one object, frame by frame.
struct ObjectFrames {
  std::vector<double> region, boundary;
};

/// One frame of a batch.
struct SeenFrame {
  std::int64_t video = 0, number = 0;
  Tensor features;  ///< [R, M, C]
  Tensor labels;    ///< [H, W] int64 on the CPU; negative: background
  std::int64_t shown_height = 0, shown_width = 0;
};

/// Follows the objects of one video after the other, and keeps what their frames score.
class Follower {
 public:
  explicit Follower(const PropagationRule& rule) : rule_(rule) {}

  void add(const SeenFrame& frame) {
    if (frame.number == 0) {
      finish();
      begin(frame);
      return;
    }
    if (!propagation_ || frame.video != video_ || frame.number != frames_) {
      throw DataError(fmt::format(
          "video {}: frame {} comes without those before it; video_segmentation takes whole videos "
          "in their order, so single frames are not possible: leave out `predictions`",
          frame.video, frame.number));
    }
    ++frames_;
    const Tensor shares = propagation_->next(frame.features);
    const Tensor answers = answers_of_shares(shares, frame.shown_height, frame.shown_width,
                                             frame.labels.size(0), frame.labels.size(1))
                               .to(at::kCPU);
    for (std::size_t k = 0; k < objects_.size(); ++k) {
      const auto object = static_cast<std::int64_t>(k) + 1;
      const Tensor truth = frame.labels.eq(object), answer = answers.eq(object);
      objects_[k].region.push_back(region_similarity(truth, answer));
      objects_[k].boundary.push_back(boundary_accuracy(truth, answer));
    }
  }

  /// @throws DataError for a video that was cut off; Error where there was none.
  Metrics result() {
    finish();
    if (count_ == 0) throw Error("evaluation: there were no videos; is the split empty?");
    Metrics means;
    for (const auto& [name, sum] : sums_) means[name] = sum / count_;
    means["jf_mean"] = (means["j_mean"] + means["f_mean"]) / 2;
    return means;
  }

 private:
  void begin(const SeenFrame& frame) {
    const std::int64_t rows = frame.features.size(0), columns = frame.features.size(1);
    const auto largest = frame.labels.max().item<std::int64_t>();
    if (largest < 1) {
      throw DataError(
          fmt::format("video {}: its first frame shows no object to follow", frame.video));
    }
    const Tensor small = nearest_pixels(frame.labels.clamp_min(0), rows, columns);
    const Tensor shares = small.unsqueeze(0).eq(at::arange(largest + 1).view({-1, 1, 1}));
    propagation_.emplace(rule_, frame.features, shares.to(frame.features.device()));
    objects_.assign(static_cast<std::size_t>(largest), {});
    video_ = frame.video;
    frames_ = 1;
  }

  /// Counts a video's objects, without its last frame.
  void finish() {
    if (!propagation_) return;
    if (frames_ < 3) {
      throw DataError(fmt::format(
          "video {}: has {} frames, and the first and the last do not count; take whole videos of "
          "at least three (single frames are not possible: leave out `predictions`)",
          video_, frames_));
    }
    for (ObjectFrames& object : objects_) {
      add("j", object.region);
      add("f", object.boundary);
      ++count_;
    }
    propagation_.reset();
  }

  void add(const std::string& name, std::vector<double>& values) {
    values.pop_back();
    const FrameScores scores = over_frames(values);
    sums_[name + "_mean"] += scores.mean;
    sums_[name + "_recall"] += scores.recall;
    sums_[name + "_decay"] += scores.decay;
  }

  PropagationRule rule_;
  std::optional<LabelPropagation> propagation_;  ///< empty: no video has begun
  std::int64_t video_ = 0, frames_ = 0;
  std::vector<ObjectFrames> objects_;
  Metrics sums_;
  double count_ = 0;  ///< objects
};

/// The name of a layer's patches among features.
std::string patches_of(std::int64_t layer) {
  if (layer == 0) throw OptionError("layer", "is 0; the first is 1, the last -1");
  return fmt::format("mean@{}", layer);
}

class VideoSegmentation final : public MeasuringTask {
 public:
  VideoSegmentation(const VideoSegmentationOptions& options, const TaskSetup&)
      : rule_(options.rule()), reader_({patches_of(options.layer)}, "layer") {}

  std::vector<MetricInfo> metrics() const override {
    return {{"jf_mean", Better::higher, "share"},  {"j_mean", Better::higher, "share"},
            {"j_recall", Better::higher, "share"}, {"j_decay", Better::lower, ""},
            {"f_mean", Better::higher, "share"},   {"f_recall", Better::higher, "share"},
            {"f_decay", Better::lower, ""}};
  }

  Metrics evaluate(Evaluation& evaluation) const override {
    const c10::NoGradGuard no_gradients;
    Follower follower(rule_);
    evaluation.batches(evaluation.split,
                       [&](const Batch& batch) { add_frames(evaluation.model, batch, follower); });
    return follower.result();
  }

 private:
  void add_frames(Model& model, const Batch& batch, Follower& follower) const {
    const auto numbers_of = [&](const char* field) {
      return batch.fields.at(field).to(at::kCPU).contiguous();
    };
    const Tensor shown = numbers_of("shown"), sizes = numbers_of("size");
    const Tensor videos = numbers_of("video"), frames = numbers_of("frame");
    const Tensor labels = numbers_of("label_map");
    const Tensor& images = batch.fields.at("image");
    const auto size_in = [](const Tensor& table, std::int64_t i) {
      const auto* numbers = table.data_ptr<std::int64_t>() + 2 * i;
      return std::pair{numbers[0], numbers[1]};
    };
    const bool even = shown.select(1, 0).eq(images.size(2)).all().item<bool>() &&
                      shown.select(1, 1).eq(images.size(3)).all().item<bool>();
    Tensor all;  // features of all frames, where one pass gives them
    if (even) all = features_of(model, images);
    for (std::int64_t i = 0; i < batch.size; ++i) {
      const auto [height, width] = size_in(sizes, i);
      SeenFrame frame;
      std::tie(frame.shown_height, frame.shown_width) = size_in(shown, i);
      frame.video = videos.data_ptr<std::int64_t>()[i];
      frame.number = frames.data_ptr<std::int64_t>()[i];
      frame.labels = labels[i].narrow(0, 0, height).narrow(1, 0, width);
      frame.features = even ? all[i]
                            : features_of(model, images.narrow(0, i, 1)
                                                     .narrow(2, 0, frame.shown_height)
                                                     .narrow(3, 0, frame.shown_width)
                                                     .contiguous())[0];
      if (!frame.features.isfinite().all().item<bool>()) {
        throw DataError(fmt::format("video {}, frame {}: the model's features are not finite",
                                    frame.video, frame.number));
      }
      follower.add(frame);
    }
  }

  /// [B, R, M, C] of pictures [B, 3, h, w].
  Tensor features_of(Model& model, const Tensor& pictures) const {
    Batch seen;
    seen.size = pictures.size(0);
    seen.fields.set("image", pictures);
    const LayerFeatures found = reader_.layers(model, seen).at(0);
    if (found.rows * found.columns != found.tokens.size(1)) {
      throw ShapeError(fmt::format(
          "the model's features are not a grid of patches, which labels lie on: {} rows of "
          "{} for {} tokens",
          found.rows, found.columns, found.tokens.size(1)));
    }
    return wide(found.tokens).view({seen.size, found.rows, found.columns, -1});
  }

  PropagationRule rule_;
  FeatureReader reader_;
};

}  // namespace

ATTNLAB_PLUGIN(task, VideoSegmentation, VideoSegmentationOptions,
               {.id = "attnlab/video_segmentation",
                .version = "1.0.0",
                .summary = "objects of a video's first frame tracked by features: J and F of DAVIS",
                .citation = "Pont-Tuset et al. 2017, arXiv:1704.00675; Caron et al. 2021, "
                            "arXiv:2104.14294",
                .licence = "Apache-2.0",
                .takes = {"layer_features", "image", "shown", "label_map", "size", "video",
                          "frame"}})

}  // namespace attnlab
