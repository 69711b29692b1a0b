// Synthetic scenes: rooms with furniture as a scanner in them sees them, one label per point.
// Enough to train and compare models of point clouds on a machine without data.
//
// A room is a floor, a ceiling, four walls, tables, chairs, cabinets, lamps, pillars and balls,
// made of boxes, cylinders and spheres, and small things on the floor and on tables. From each
// scanner rays go out evenly in all directions; a point is where a ray first meets something, moved
// along the ray by noise. So what stands behind something else is hidden, and what is far away has
// fewer points. Feature: the intensity that comes back, reflectance times the cosine between ray
// and surface; reflectances are drawn by object, and say nothing about its class.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "framework/base/files.h"
#include "framework/data/made_up.h"
#include "framework/data/points/point_dataset.h"
#include "framework/plugin.h"
#include "plugins/datasets/points/synthetic_scenes/scene.h"

namespace attnlab {
namespace {

struct SyntheticScenesOptions : MadeUpOptions, PointOptions {
  std::int64_t rays = 8192, scanners = 2, furniture = 12, clutter = 12;
  double noise = 0.005;

  constexpr SyntheticScenesOptions() {
    train = 400;
    test = 100;
  }

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("rays", rays, range(1, 1e7), "points of a scene");
    v("scanners", scanners, range(1, 64), "positions from which rays are sent, in turn");
    v("furniture", furniture, range(0, 1000), "pieces of furniture; fewer if they do not fit");
    v("clutter", clutter, range(0, 1000), "small things");
    v("noise", noise, range(0, 1), "standard deviation of the distance, in metres");
    MadeUpOptions::describe(v);
    PointOptions::describe(v);
  }
};

class SyntheticScenes final : public PointDataset {
 public:
  SyntheticScenes(const SyntheticScenesOptions& options, const DatasetSetup& setup)
      : PointDataset("synthetic_scenes", options, setup),
        options_(options),
        streams_(options.data_seed < 0
                     ? setup.streams
                     : RandomStreams(static_cast<std::uint64_t>(options.data_seed))) {
    info_.source = "rooms with furniture, made by rule";
    info_.classes = static_cast<std::int64_t>(kSceneClasses.size());
    info_.class_names.assign(kSceneClasses.begin(), kSceneClasses.end());
    describe_fields(1, /*each_point=*/true);
    SyntheticScenesOptions unmoved = options;
    unmoved.augmentation = {};
    set_fingerprint(fingerprint(OptionText::of(unmoved), streams_.key("synthetic")));
  }

 protected:
  std::int64_t clouds(Split split) const override {
    return split == Split::train        ? options_.train
           : split == Split::validation ? options_.validation
                                        : options_.test;
  }

  std::int64_t points(Split, std::int64_t) const override { return options_.rays; }

  PointCloud read(Split split, std::int64_t index) const override {
    Random random = streams_.stream("synthetic", static_cast<std::uint64_t>(split),
                                    static_cast<std::uint64_t>(index));
    const Scene scene = make_scene(random, options_.furniture, options_.clutter, options_.scanners);
    const std::int64_t n = options_.rays;
    PointCloud cloud;
    cloud.place = fmt::format("synthetic_scenes: scene {}", index);
    cloud.coordinates = at::empty({n, 3});
    cloud.features = at::empty({n, 1});
    cloud.labels = at::empty({n}, at::kLong);
    for (std::int64_t i = 0; i < n; ++i) {
      const Vector3& from = scene.scanners[static_cast<std::size_t>(i % options_.scanners)];
      const Vector3 along = direction(random);
      const Hit hit = first_hit(scene, from, along);
      const double distance = hit.distance + options_.noise * random.normal();
      for (std::size_t axis = 0; axis < 3; ++axis) {
        cloud.coordinates.data_ptr<float>()[3 * i + std::int64_t(axis)] =
            static_cast<float>(from[axis] + distance * along[axis]);
      }
      cloud.features.data_ptr<float>()[i] = static_cast<float>(hit.reflectance * hit.facing);
      cloud.labels.data_ptr<std::int64_t>()[i] = hit.label;
    }
    return cloud;
  }

 private:
  /// Uniform on the sphere.
  static Vector3 direction(Random& random) {
    const double z = 2 * random.uniform() - 1, angle = 2 * std::numbers::pi * random.uniform();
    const double across = std::sqrt(1 - z * z);
    return {across * std::cos(angle), across * std::sin(angle), z};
  }

  SyntheticScenesOptions options_;
  RandomStreams streams_;
};

}  // namespace

ATTNLAB_PLUGIN(
    dataset, SyntheticScenes, SyntheticScenesOptions,
    {.id = "attnlab/synthetic_scenes",
     .version = "1.0.0",
     .summary = "made-up rooms with furniture as a scanner sees them, one label per point",
     .licence = "CC0-1.0",
     .gives = {"coord@point", "label@point", "inverse@point>voxel", "grid@voxel", "feature@voxel",
               "label@voxel", "view?"}})

}  // namespace attnlab
