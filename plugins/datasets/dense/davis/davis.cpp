// DAVIS: videos with masks of objects, one frame per example, in order.
//
// Layout: videos.h. A frame is shown with its shorter side of `short_side` pixels, the longer one
// rounded down to a multiple of `multiple`; its mask stays as it is stored. Fields:
//
//   image [3, h, w]      in a batch padded with zeros below and on the right
//   shown [2]            h and w
//   label_map [H, W]     the object of each pixel, 0 for none; negative where there is no label
//   size [2]             H and W
//   video [], frame []   numbers of the video in its set, and of the frame in its video, from 0
//
// Where it is evaluated a batch holds frames of one video, 8 at most.
// Source: Pont-Tuset et al., The 2017 DAVIS Challenge; sizes as in Caron et al., DINO, ICCV 2021,
// whose code resizes without antialias. Cost: all masks are read once when it is opened, and the
// result is kept where that takes longer than a second; frames are read when they are asked for.
#include <fmt/format.h>

#include <algorithm>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/data/formats/files.h"
#include "framework/data/image/resize.h"
#include "framework/plugin.h"
#include "plugins/datasets/dense/davis/videos.h"

namespace attnlab {
namespace {

constexpr std::int64_t kMostFrames = 8;  ///< of an evaluation's batch: each is some megabytes

struct DavisOptions {
  std::string root, name = "DAVIS";
  std::string train_set, test_set = "2017/val";
  std::int64_t short_side = 480, multiple = 64;
  std::vector<double> mean = {0.485, 0.456, 0.406};
  std::vector<double> deviation = {0.228, 0.224, 0.225};

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("root", root, "folder of the dataset (empty: search the usual places)");
    v("name", name, "name of the folder to search for");
    v("train_set", train_set, "list of videos for training, below ImageSets; empty: none");
    v("test_set", test_set, "list of test videos, below ImageSets: 2017/val, 480p/val");
    v("short_side", short_side, range(1, 8192), "shorter side of a frame as the model sees it");
    v("multiple", multiple, range(1, 1024), "the longer side is a multiple of this, in pixels");
    v("mean", mean, range(-1e6, 1e6), "mean of red, green and blue, of pixels in [0, 1]");
    v("std", deviation, range(1e-6, 1e6), "standard deviation of each");
  }
};

class Davis final : public Dataset {
 public:
  Davis(const DavisOptions& options, const DatasetSetup&)
      : options_(options), map_(PixelMap::of_options(options.mean, options.deviation)) {
    if (options.test_set.empty()) throw OptionError("test_set", "is empty; name one");
    DataSearch search{options.name,
                      {},
                      options.root,
                      "fetch DAVIS-2017-trainval-480p from https://davischallenge.org",
                      /*packed=*/false};
    for (const std::string& set : {options.test_set, options.train_set}) {
      if (!set.empty()) search.files.push_back("ImageSets/" + set + ".txt");
    }
    info_.name = "davis";
    info_.source = find_data_folder(search);
    test_ = read_videos(info_.source, options.test_set);
    if (!options.train_set.empty()) train_ = read_videos(info_.source, options.train_set);
    std::string text = fmt::format("{};{};", options.short_side, options.multiple);
    for (const auto* numbers : {&options.mean, &options.deviation}) {
      for (const double number : *numbers) text += shortest(number) + ";";
    }
    info_.fingerprint = hex(fingerprint(text + hex(train_.fingerprint), test_.fingerprint));
    FieldInfo image{"image", {3, -1, -1}, at::kFloat};
    image.mean = options.mean;
    image.deviation = options.deviation;
    info_.fields = {image,
                    {"shown", {2}, at::kLong},
                    {"label_map", {-1, -1}, at::kLong},
                    {"size", {2}, at::kLong},
                    {"video", {}, at::kLong},
                    {"frame", {}, at::kLong}};
    for (const VideoSet* set : {&train_, &test_}) {
      for (const Video& video : set->videos) shown_size(*set, video);
    }
  }

  const DatasetInfo& info() const override { return info_; }

  std::int64_t size(Split split) const override {
    const VideoSet& set = set_of(split);
    return set.frames == nullptr ? 0 : set.frames->size();
  }

  EpochPlan plan(const PlanRequest& request) const override {
    if (request.training) return default_plan(*this, request);
    const std::int64_t most = std::min(request.batch_size, kMostFrames);
    EpochPlan plan;
    for (const Video& video : set_of(request.split).videos) {
      for (std::int64_t frame = 0; frame < video.frames; ++frame) {
        plan.order.push_back(video.begin + frame);
        if ((frame + 1) % most == 0 || frame + 1 == video.frames) {
          plan.ends.push_back(std::ssize(plan.order));
        }
      }
    }
    return plan;
  }

 protected:
  NamedTensors make_example(Split split, std::int64_t index, Random*) const override {
    const VideoSet& set = set_of(split);
    const auto after = std::upper_bound(
        set.videos.begin(), set.videos.end(), index,
        [](std::int64_t frame, const Video& video) { return frame < video.begin; });
    const Video& video = *(after - 1);
    const PictureSize size = shown_size(set, video);
    const Pixels picture = set.frames->picture(index);
    const Pixels pixels = resized(picture, {0, 0, picture.height, picture.width}, size.height,
                                  size.width, Filter::bilinear);
    const Tensor image = at::empty({3, size.height, size.width});
    write_image(pixels, map_, /*flip=*/false, image.data_ptr<float>());
    const LabelMap labels = set.frames->labels(index);
    const Tensor label_map = at::empty({labels.height, labels.width}, at::kLong);
    std::copy(labels.classes.begin(), labels.classes.end(), label_map.data_ptr<std::int64_t>());
    return {{"image", image},
            {"shown", at::tensor({size.height, size.width}, at::kLong)},
            {"label_map", label_map},
            {"size", at::tensor({labels.height, labels.width}, at::kLong)},
            {"video", at::scalar_tensor(after - 1 - set.videos.begin(), at::kLong)},
            {"frame", at::scalar_tensor(index - video.begin, at::kLong)}};
  }

 private:
  const VideoSet& set_of(Split split) const {
    static const VideoSet kNone;
    return split == Split::train ? train_ : split == Split::test ? test_ : kNone;
  }

  /// @throws OptionError where a side is shorter than `multiple`.
  PictureSize shown_size(const VideoSet& set, const Video& video) const {
    const PictureSize own = set.frames->size_of(video.begin);
    const std::int64_t side = options_.short_side, multiple = options_.multiple;
    const bool upright = own.height > own.width;
    const std::int64_t longer = upright ? own.height : own.width;
    const std::int64_t shorter = upright ? own.width : own.height;
    const std::int64_t rounded = side * longer / (shorter * multiple) * multiple;
    if (rounded == 0) {
      throw OptionError("multiple", fmt::format("{} pixels are more than the longer side of {} "
                                                "has where the shorter one has {}; make it smaller",
                                                multiple, set.frames->name_of(video.begin), side));
    }
    return upright ? PictureSize{rounded, side} : PictureSize{side, rounded};
  }

  DavisOptions options_;
  PixelMap map_;
  VideoSet train_, test_;
  DatasetInfo info_;
};

}  // namespace

ATTNLAB_PLUGIN(dataset, Davis, DavisOptions,
               {.id = "attnlab/davis",
                .version = "1.0.0",
                .summary = "videos with masks of objects, in the layout of DAVIS 2017 and 2016",
                .citation = "Pont-Tuset et al. 2017, arXiv:1704.00675",
                .licence = "that of your data (DAVIS: CC BY-NC 4.0)",
                .gives = {"image", "shown", "label_map", "size", "video", "frame"}})

}  // namespace attnlab
