// Small clouds for tests: voxels of several examples at random places.
#pragma once

#include <vector>

#include "framework/base/random.h"
#include "framework/nn/points/voxels.h"

namespace attnlab::testing {

struct Cloud {
  Tensor grid;     ///< [N, 3] int64, rising keys
  Tensor offsets;  ///< [B + 1]
  Tensor keys;     ///< [N]
};

/// Clouds of about so many voxels each in a cube of this side.
inline Cloud random_cloud(const std::vector<std::int64_t>& sizes, std::int64_t side,
                          std::uint64_t seed = 1) {
  Random random(seed);
  std::vector<Tensor> grids;
  std::vector<std::int64_t> ends = {0};
  for (const std::int64_t size : sizes) {
    const Tensor points = at::empty({size, 3}, at::kDouble);
    for (std::int64_t i = 0; i < 3 * size; ++i) {
      points.data_ptr<double>()[i] = static_cast<double>(random.below(side));
    }
    grids.push_back(voxelise(points, 1, "made up").grid);
    ends.push_back(ends.back() + grids.back().size(0));
  }
  Cloud cloud{at::cat(grids), at::tensor(ends, at::kLong), Tensor()};
  cloud.keys = voxel_keys(cloud.grid, cloud.offsets);
  return cloud;
}

}  // namespace attnlab::testing
