// Fashion scenes: images of Fashion-MNIST on cluttered canvases, scaled, turned and partly hidden
// by each other, with the boxes of what is seen of them. A benchmark of detection, one-shot or not,
// for two cores.
//
// Training scenes are made of the archive's training images, those of tests of its test images; in
// one-shot detection, training scenes have base classes alone. Each scene is a function of the seed
// and its number. Fields: framework/data/detection/boxed_images.h and one_shot.h.
// Source: ours; images of Xiao, Rasul, Vollgraf 2017, arXiv:1708.07747.
// Cost: layouts are made when the dataset is opened, pictures when they are first asked for; they
// are kept where those of a split take at most 256 MiB.
#include <algorithm>
#include <mutex>

#include "framework/base/files.h"
#include "framework/data/detection/one_shot.h"
#include "framework/data/formats/files.h"
#include "framework/data/image/idx_files.h"
#include "framework/data/long_work.h"
#include "framework/data/made_up.h"
#include "framework/plugin.h"
#include "plugins/datasets/detection/fashion_scenes/scene.h"

namespace attnlab {
namespace {

struct FashionScenesOptions : MadeUpOptions, SceneOptions, OneShotOptions {
  std::string root;
  bool one_shot = true;

  constexpr FashionScenesOptions() {
    train = 2000;
    test = 400;
    size = 128;
    prompt_size = 64;
    flip = true;
    mean = {0.25, 0.25, 0.25};
    deviation = {0.25, 0.25, 0.25};
    novel = {"dress", "sneaker", "bag"};
  }

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("root", root, "folder with Fashion-MNIST's files (empty: search the usual places)");
    v("one_shot", one_shot, "look for what a prompt shows; false: for all classes");
    MadeUpOptions::describe(v);
    SceneOptions::describe(v);
    OneShotOptions::describe(v);
  }
};

/// Bytes of pictures that a split keeps.
constexpr std::int64_t kKept = 256 * 1024 * 1024;

/// The scenes of one split.
class Scenes final : public PictureSet {
 public:
  Scenes(const SceneOptions& options, std::shared_ptr<const ImageSet> source, bool training,
         std::int64_t count, const std::vector<char>& classes, RandomStreams streams, Split split)
      : options_(options),
        source_(std::move(source)),
        images_(training ? source_->train : source_->test),
        streams_(streams),
        split_(static_cast<std::uint64_t>(split)) {
    std::vector<std::vector<std::int64_t>> by_class(classes.size());
    for (std::size_t i = 0; i < images_.labels.size(); ++i) {
      if (classes[images_.labels[i]] != 0) by_class[images_.labels[i]].push_back(std::int64_t(i));
    }
    if (count <= kKept / (3 * options_.canvas * options_.canvas)) {
      pictures_ = std::vector<Picture>(std::size_t(count));
    }
    layouts_.resize(std::size_t(count));
    notes_.resize(std::size_t(count));
    in_parallel("laying out scenes", count, [&](std::int64_t i) {
      Random random = streams_.stream("synthetic", split_, std::uint64_t(i));
      SceneLayout& layout = layouts_[std::size_t(i)];
      layout = lay_out(options_, images_, by_class, random);
      notes_[std::size_t(i)] = {i, options_.canvas, options_.canvas, layout.boxes};
    });
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(notes_.size()); }
  const PictureNotes& notes(std::int64_t index) const override {
    return notes_.at(std::size_t(index));
  }
  Part part(std::int64_t index, const Box& box, std::int64_t, std::int64_t) const override {
    if (pictures_.empty()) return {painted(index), box};
    Picture& kept = pictures_.at(std::size_t(index));
    std::call_once(kept.once, [&] { kept.pixels = painted(index); });
    return {kept.pixels, box};
  }

 private:
  struct Picture {
    std::once_flag once;
    Pixels pixels;
  };

  Pixels painted(std::int64_t index) const {
    Random random = streams_.stream("background", split_, std::uint64_t(index));
    return paint(options_, images_, layouts_.at(std::size_t(index)), random);
  }

  SceneOptions options_;
  std::shared_ptr<const ImageSet> source_;
  const LabelledImages& images_;
  RandomStreams streams_;
  std::uint64_t split_;
  std::vector<SceneLayout> layouts_;
  std::vector<PictureNotes> notes_;
  mutable std::vector<Picture> pictures_;  ///< empty: none are kept
};

PictureSplits scenes_of(const FashionScenesOptions& options, const DatasetSetup& setup) {
  const RandomStreams streams = options.data_seed < 0
                                    ? setup.streams
                                    : RandomStreams(static_cast<std::uint64_t>(options.data_seed));
  if (options.least_scale > options.largest_scale) {
    throw OptionError("least_scale", "is above largest_scale");
  }
  const auto source =
      std::make_shared<const ImageSet>(read_idx_images("fashion-mnist", 10, options.root));
  PictureSplits splits;
  splits.name = "fashion_scenes";
  splits.source = "scenes made by rule of " + source->info.source;
  splits.class_names = source->info.class_names;
  const std::vector<char> all(splits.class_names.size(), 1);
  std::vector<char> base = all;
  for (std::size_t k = 0; options.one_shot && k < base.size(); ++k) {
    const bool novel = std::find(options.novel.begin(), options.novel.end(),
                                 splits.class_names[k]) != options.novel.end();
    base[k] = novel ? 0 : 1;
  }
  if (std::count(base.begin(), base.end(), 1) == 0) {
    throw OptionError("novel", "leaves no class to train on");
  }
  const SceneOptions& rule = options;
  const auto make = [&](Split split, std::int64_t count) -> std::shared_ptr<const PictureSet> {
    if (count == 0) return nullptr;
    const bool training = split != Split::test;
    return std::make_shared<Scenes>(rule, source, training, count,
                                    split == Split::train ? base : all, streams, split);
  };
  splits.train = make(Split::train, options.train);
  splits.validation = make(Split::validation, options.validation);
  splits.test = make(Split::test, options.test);
  splits.fingerprint = fingerprint(OptionText::of(rule), streams.key("synthetic"));
  const MadeUpOptions& sizes = options;
  splits.fingerprint = fingerprint(OptionText::of(sizes), splits.fingerprint);
  for (const LabelledImages* images : {&source->train, &source->test}) {
    splits.fingerprint = content_fingerprint(images->bytes, splits.fingerprint);
    const auto* labels = reinterpret_cast<const char*>(images->labels.data());
    splits.fingerprint = content_fingerprint({labels, images->labels.size()}, splits.fingerprint);
  }
  return splits;
}

class FashionScenes final : public Dataset {
 public:
  FashionScenes(const FashionScenesOptions& options, const DatasetSetup& setup) {
    PictureSplits splits = scenes_of(options, setup);
    if (options.one_shot) {
      scenes_ = std::make_unique<OneShotPairs>(std::move(splits), options);
    } else {
      scenes_ = std::make_unique<BoxedImages>(std::move(splits), options);
    }
  }

  const DatasetInfo& info() const override { return scenes_->info(); }
  std::int64_t size(Split split) const override { return scenes_->size(split); }
  NamedTensors make_example(Split split, std::int64_t index, Random* augmentation) const override {
    return scenes_->example(split, index, augmentation);
  }

 private:
  std::unique_ptr<BoxedImages> scenes_;
};

}  // namespace

ATTNLAB_PLUGIN(
    dataset, FashionScenes, FashionScenesOptions,
    {.id = "attnlab/fashion_scenes",
     .version = "1.0.0",
     .summary = "Fashion-MNIST on cluttered canvases: detection, one-shot or not, generated",
     .citation = "images: Xiao, Rasul, Vollgraf 2017, arXiv:1708.07747",
     .licence = "MIT",
     .gives = {"image", "image_valid", "size", "image_id", "box@box", "label@box", "area@box",
               "ignored@box", "prompt if one_shot=true", "prompt_class if one_shot=true",
               "prompt_number if one_shot=true"}})

}  // namespace attnlab
