// Painted scenes: shapes of random colours on a background of two colours, with a label for each
// pixel. Segmentation for machines without data.
//
//   background   a blend of two colours along a random direction
//   shape        one of disc, square, triangle, ring, cross: the label, whatever its colour; of a
//                random size, turned at random, in front of those before it
//   border       pixels within `border` of a shape's edge have no label, as VOC's
//   picture      + noise N(0, (255 noise)^2), cut to 0..255
//
// A scene is a function of the seed, its split and its index. Fields:
// framework/data/segmentation/labelled_pictures.h. Cost: a pass over the pixels for each shape, and
// two random numbers a byte; pictures of a split are kept where they take at most 256 MiB.
#include <algorithm>
#include <cmath>
#include <mutex>
#include <numbers>

#include "framework/base/files.h"
#include "framework/data/made_up.h"
#include "framework/data/segmentation/labelled_pictures.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct PaintingOptions {
  std::int64_t size = 64;
  std::int64_t most = 5;
  double least_radius = 0.1, largest_radius = 0.25;
  double noise = 0.05;
  double border = 0.5;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("size", size, range(8, 1024), "height and width of a scene in pixels");
    v("most", most, range(1, 50), "shapes per scene: 1 to this");
    v("least_radius", least_radius, range(0.01, 1),
      "smallest radius of a shape, as a share of the size");
    v("largest_radius", largest_radius, range(0.01, 1),
      "largest radius of a shape, as a share of the size");
    v("noise", noise, range(0, 1), "standard deviation of the noise; white is 1");
    v("border", border, range(0, 16), "pixels on either side of an edge that have no label");
  }
};

struct PaintedScenesOptions : MadeUpOptions, PaintingOptions, LabelledPictureOptions {
  constexpr PaintedScenesOptions() {
    test = 200;
    mean = {0.5, 0.5, 0.5};
    deviation = {0.25, 0.25, 0.25};
  }

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    MadeUpOptions::describe(v);
    PaintingOptions::describe(v);
    LabelledPictureOptions::describe(v);
  }
};

constexpr const char* kNames[] = {"background", "disc", "square", "triangle", "ring", "cross"};
constexpr std::int64_t kShapes = 5;

struct Shape {
  std::int16_t label = 1;
  double x = 0, y = 0, radius = 1, turn = 0;
  double colour[3] = {0, 0, 0};
};

/// How far a place lies outside of a shape, in pixels; negative inside. Exact near the edges'
/// middles, which is where it counts.
double outside(const Shape& shape, double x, double y) {
  const double c = std::cos(shape.turn), s = std::sin(shape.turn), r = shape.radius;
  const double u = c * (x - shape.x) + s * (y - shape.y);
  const double v = c * (y - shape.y) - s * (x - shape.x);
  const double away = std::hypot(u, v), a = std::abs(u), b = std::abs(v);
  switch (shape.label) {
    case 1:
      return away - r;
    case 2:
      return std::max(a, b) - 0.8 * r;
    case 3:  // of equal sides, with its middle here
      return std::max(0.5 * std::sqrt(3.0) * a + 0.5 * v, -v) - 0.5 * r;
    case 4:
      return std::abs(away - 0.75 * r) - 0.25 * r;
    default:  // two bars
      return std::max(std::min(a, b) - 0.25 * r, std::max(a, b) - 0.9 * r);
  }
}

Shape drawn_shape(const PaintingOptions& options, Random& random) {
  const auto side = static_cast<double>(options.size);
  Shape shape;
  shape.label = static_cast<std::int16_t>(1 + random.below(kShapes));
  shape.radius = side * random.uniform(options.least_radius, options.largest_radius);
  shape.x = side * random.uniform();
  shape.y = side * random.uniform();
  shape.turn = 2 * std::numbers::pi * random.uniform();
  for (double& value : shape.colour) value = 255 * random.uniform();
  return shape;
}

struct Scene {
  Pixels picture;
  LabelMap labels;
};

Scene painted_scene(const PaintingOptions& options, Random& random) {
  const std::int64_t size = options.size;
  double near[3], far[3];
  for (int c = 0; c < 3; ++c) {
    near[c] = 255 * random.uniform();
    far[c] = 255 * random.uniform();
  }
  const double direction = 2 * std::numbers::pi * random.uniform();
  std::vector<Shape> shapes(static_cast<std::size_t>(1 + random.below(options.most)));
  for (Shape& shape : shapes) shape = drawn_shape(options, random);
  Scene scene{Pixels(size, size, 3), LabelMap(size, size)};
  for (std::int64_t y = 0; y < size; ++y) {
    for (std::int64_t x = 0; x < size; ++x) {
      const double px = static_cast<double>(x) + 0.5, py = static_cast<double>(y) + 0.5;
      const double along = (std::cos(direction) * (px / double(size) - 0.5) +
                            std::sin(direction) * (py / double(size) - 0.5)) /
                           std::numbers::sqrt2;
      double colour[3];
      for (int c = 0; c < 3; ++c) colour[c] = near[c] + (along + 0.5) * (far[c] - near[c]);
      std::int16_t label = 0;
      for (const Shape& shape : shapes) {
        const double distance = outside(shape, px, py);
        if (distance < 0) std::copy_n(shape.colour, 3, colour);
        if (std::abs(distance) < options.border) {
          label = kUnlabelled;
        } else if (distance < 0) {
          label = shape.label;
        }
      }
      scene.labels.row(y)[x] = label;
      for (int c = 0; c < 3; ++c) {
        const double value = colour[c] + 255 * options.noise * random.normal();
        scene.picture.row(y)[3 * x + c] =
            static_cast<std::uint8_t>(std::lround(std::clamp(value, 0.0, 255.0)));
      }
    }
  }
  return scene;
}

/// Bytes of scenes that a split keeps.
constexpr std::int64_t kMostKept = 256 * 1024 * 1024;

/// The scenes of one split.
class PaintedSet final : public LabelledSet {
 public:
  PaintedSet(const PaintingOptions& options, std::int64_t count, RandomStreams streams, Split split)
      : options_(options),
        count_(count),
        streams_(streams),
        split_(split),
        kept_(count <= kMostKept / (5 * options.size * options.size) ? std::size_t(count) : 0) {}

  std::int64_t size() const override { return count_; }
  PictureSize size_of(std::int64_t) const override { return {options_.size, options_.size}; }
  std::string name_of(std::int64_t index) const override {
    return "painted scene " + std::to_string(index);
  }
  Pixels picture(std::int64_t index) const override { return scene(index).picture; }
  LabelMap labels(std::int64_t index) const override { return scene(index).labels; }

 private:
  struct Kept {
    std::once_flag once;
    Scene scene;
  };

  Scene scene(std::int64_t index) const {
    if (kept_.empty()) return painted(index);
    Kept& kept = kept_.at(static_cast<std::size_t>(index));
    std::call_once(kept.once, [&] { kept.scene = painted(index); });
    return kept.scene;
  }

  Scene painted(std::int64_t index) const {
    Random random = streams_.stream("synthetic", static_cast<std::uint64_t>(split_),
                                    static_cast<std::uint64_t>(index));
    return painted_scene(options_, random);
  }

  PaintingOptions options_;
  std::int64_t count_;
  RandomStreams streams_;
  Split split_;
  mutable std::vector<Kept> kept_;  ///< empty: none are kept
};

LabelledSplits splits_of(const PaintedScenesOptions& options, const DatasetSetup& setup) {
  if (options.least_radius > options.largest_radius) {
    throw OptionError("least_radius", "is above largest_radius");
  }
  const RandomStreams streams = options.data_seed < 0
                                    ? setup.streams
                                    : RandomStreams(static_cast<std::uint64_t>(options.data_seed));
  LabelledSplits splits;
  splits.name = "painted_scenes";
  splits.source = "scenes painted by rule";
  splits.class_names.assign(std::begin(kNames), std::end(kNames));
  const PaintingOptions& rule = options;
  const MadeUpOptions& sizes = options;
  splits.fingerprint =
      fingerprint(OptionText::of(rule) + OptionText::of(sizes), streams.key("synthetic"));
  const auto make = [&](Split split, std::int64_t count) -> std::shared_ptr<const LabelledSet> {
    if (count == 0) return nullptr;
    return std::make_shared<PaintedSet>(rule, count, streams, split);
  };
  splits.train = make(Split::train, options.train);
  splits.validation = make(Split::validation, options.validation);
  splits.test = make(Split::test, options.test);
  return splits;
}

class PaintedScenes final : public LabelledPictures {
 public:
  PaintedScenes(const PaintedScenesOptions& options, const DatasetSetup& setup)
      : LabelledPictures(splits_of(options, setup), options) {}
};

}  // namespace

ATTNLAB_PLUGIN(dataset, PaintedScenes, PaintedScenesOptions,
               {.id = "attnlab/painted_scenes",
                .version = "1.0.0",
                .summary = "shapes of random colours with a label for each pixel, generated",
                .licence = "CC0-1.0",
                .gives = {"image", "shown", "label_map", "size"}})

}  // namespace attnlab
