// A cloud of points, and how it is moved: for training, for test-time views, and to try a model.
#pragma once

#include "framework/base/random.h"
#include "framework/config/options.h"
#include "framework/tensor/tensor.h"

namespace attnlab {

struct PointCloud {
  Tensor coordinates;      ///< [N, 3] float32, metres or the data's own unit
  Tensor features;         ///< [N, F] float32 beside the coordinates; undefined: none
  Tensor normals;          ///< [N, 3] float32, turned with the cloud; undefined: none
  Tensor labels;           ///< [N] int64, negative: not counted; undefined: the cloud's own counts
  std::int64_t label = 0;  ///< class of the whole cloud
  std::string place;       ///< for messages: its file

  std::int64_t size() const { return coordinates.size(0); }
};

/// How a cloud is moved; in this order.
struct PointMoves {
  double drop = 0;
  double rotate = 0, rotate_chance = 1;
  double scale = 0;
  bool flip = false;
  double jitter = 0;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("drop", drop, range(0, 0.999), "probability of dropping each point; one always stays");
    v("rotate", rotate, range(0, 180), "rotation about z by up to this many degrees, either way");
    v("rotate_chance", rotate_chance, range(0, 1), "probability of a rotation");
    v("scale", scale, range(0, 0.99), "scaled by a random factor within 1 +- this");
    v("flip", flip, "mirrored in x, and in y, each with probability 1/2");
    v("jitter", jitter, at_least(0),
      "standard deviation of noise on each coordinate, clipped at four standard deviations");
  }
};

/// @param random  draws for every move that is asked for, and for no other
PointCloud moved(PointCloud cloud, const PointMoves& moves, Random& random);

/// View v of the test-time augmentation of Point Transformer V3 on nuScenes: scales 1, 0.95, 1.05,
/// 0.9 and 1.1, each as it is and mirrored in x and y. View 0 is the cloud itself.
/// @param view  0 to 9
PointCloud seen_from(PointCloud cloud, std::int64_t view);

/// Points whose coordinates are finite; a lidar marks what did not return by NaN.
/// @throws DataError where no point is left, or a feature or normal of one is not finite.
PointCloud without_lost_points(PointCloud cloud);

}  // namespace attnlab
