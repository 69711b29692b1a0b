// Datasets of point clouds: what is read or made becomes points, voxels, and the map between them.
//
//   coord@point [N, 3]    label@point [N]    inverse@point>voxel [N]: the voxel of each point
//   grid@voxel [M, 3] int64    feature@voxel [M, 3 + F]: coordinates, then features
//   label@voxel [M]: what most of its points are (the smallest of equals)
//   class []: of clouds with one label, in place of label@...
//   view []: with `views` above 1, which of a cloud's views it is; they follow each other
//
// Models read voxels, and metrics count raw points. A training example is moved by
// `augmentation`, any other by `corruption`, whose draws are the cloud's own: the same each time.
// Source: the protocol of Pointcept (GridSample with its inverse).
#pragma once

#include "framework/contracts/dataset.h"
#include "framework/data/points/point_cloud.h"

namespace attnlab {

struct PointOptions {
  double grid = 0.05;
  std::string voxel = "mean";
  std::int64_t views = 1;
  PointMoves augmentation, corruption;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("grid", grid, range(1e-6, 1e6), "side of a voxel, in the unit of coordinates");
    v("voxel", voxel, one_of("mean", "sample"),
      "features of a voxel: the mean over its points, or those of one point: a random one in "
      "training, else the one nearest to the mean");
    v("views", views, range(1, 10),
      "test-time augmentation: scales 1, 0.95, 1.05, 0.9 and 1.1, each as it is and mirrored; the "
      "task adds up the model's outputs for all views. Only for evaluation");
    v("augmentation", augmentation, "how training examples are changed");
    v("corruption", corruption, "how examples are changed in evaluation, to test robustness");
  }
};

class PointDataset : public Dataset {
 public:
  const DatasetInfo& info() const override { return info_; }
  /// Clouds; each `views` times, but for training.
  std::int64_t size(Split split) const final { return clouds(split) * views(split); }
  /// Points of the cloud as it lies in its file or is made, before any is dropped.
  std::int64_t cost(Split split, std::int64_t index) const final;

 protected:
  PointDataset(const std::string& name, const PointOptions& options, const DatasetSetup& setup)
      : options_(options), streams_(setup.streams) {
    info_.name = name;
  }

  NamedTensors make_example(Split split, std::int64_t index, Random* augmentation) const final;

  virtual std::int64_t clouds(Split split) const = 0;
  /// One cloud as it is; thread-safe. Points without finite coordinates are left out afterwards.
  virtual PointCloud read(Split split, std::int64_t cloud) const = 0;
  /// Its points, without reading all of it where that can be; above 0.
  virtual std::int64_t points(Split split, std::int64_t cloud) const = 0;

  /// Writes `info_.fields` and the unit; classes must be set before.
  /// @param features    columns beside coordinates, normals among them
  /// @param each_point  labels of points, not of clouds
  void describe_fields(std::int64_t features, bool each_point);

  /// The data's own, and every option that changes examples, `augmentation` aside.
  void set_fingerprint(std::uint64_t data);

  DatasetInfo info_;

 private:
  std::int64_t views(Split split) const { return split == Split::train ? 1 : options_.views; }
  PointCloud moved_cloud(Split split, std::int64_t index, Random* augmentation) const;

  PointOptions options_;
  RandomStreams streams_;
};

}  // namespace attnlab
