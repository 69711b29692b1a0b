#include "framework/data/points/point_dataset.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "framework/base/files.h"
#include "framework/data/made_up.h"
#include "framework/nn/points/voxels.h"

namespace attnlab {
namespace {

/// Points by voxel: those of voxel m are order[starts[m]] to order[starts[m + 1]]. They are in
/// order of their numbers, not of their places in the file, so that sums and ties do not depend on
/// these.
struct Members {
  std::vector<std::int64_t> starts, order;
};

/// @param x  [N, C] float32: the points' numbers
Members members_of(const Voxels& voxels, const Tensor& x) {
  const std::int64_t n = voxels.inverse.size(0), m = voxels.grid.size(0);
  const std::int64_t* voxel = voxels.inverse.data_ptr<std::int64_t>();
  Members members{std::vector<std::int64_t>(static_cast<std::size_t>(m + 1)),
                  std::vector<std::int64_t>(static_cast<std::size_t>(n))};
  for (std::int64_t i = 0; i < n; ++i) ++members.starts[std::size_t(voxel[i]) + 1];
  for (std::size_t j = 0; j < std::size_t(m); ++j) members.starts[j + 1] += members.starts[j];
  std::vector<std::int64_t> next = members.starts;
  for (std::int64_t i = 0; i < n; ++i) {
    members.order[std::size_t(next[std::size_t(voxel[i])]++)] = i;
  }
  const float* numbers = x.data_ptr<float>();
  const std::int64_t channels = x.size(1);
  const auto before = [&](std::int64_t a, std::int64_t b) {
    const float *one = numbers + a * channels, *other = numbers + b * channels;
    return std::lexicographical_compare(one, one + channels, other, other + channels);
  };
  for (std::size_t j = 0; j < std::size_t(m); ++j) {
    std::sort(members.order.begin() + members.starts[j],
              members.order.begin() + members.starts[j + 1], before);
  }
  return members;
}

/// [M, C]: the mean of each voxel's points.
Tensor means(const Tensor& x, const Members& members) {
  const auto voxels = static_cast<std::int64_t>(members.starts.size()) - 1;
  const std::int64_t channels = x.size(1);
  const Tensor y = at::empty({voxels, channels});
  const float* from = x.data_ptr<float>();
  std::vector<double> sums(static_cast<std::size_t>(channels));
  for (std::int64_t m = 0; m < voxels; ++m) {
    const std::int64_t begin = members.starts[std::size_t(m)],
                       end = members.starts[std::size_t(m) + 1];
    std::fill(sums.begin(), sums.end(), 0.0);
    for (std::int64_t i = begin; i < end; ++i) {
      const float* row = from + members.order[std::size_t(i)] * channels;
      for (std::int64_t c = 0; c < channels; ++c) sums[std::size_t(c)] += row[c];
    }
    for (std::int64_t c = 0; c < channels; ++c) {
      y.data_ptr<float>()[m * channels + c] =
          static_cast<float>(sums[std::size_t(c)] / static_cast<double>(end - begin));
    }
  }
  return y;
}

/// [M]: a point for each voxel, drawn, or that nearest to the mean of the coordinates (of equally
/// near ones the first).
Tensor samples(const Tensor& x, const Members& members, const Tensor& mean, Random* random) {
  const auto voxels = static_cast<std::int64_t>(members.starts.size()) - 1;
  const Tensor rows = at::empty({voxels}, at::kLong);
  const std::int64_t channels = x.size(1);
  for (std::int64_t m = 0; m < voxels; ++m) {
    const std::int64_t begin = members.starts[std::size_t(m)],
                       end = members.starts[std::size_t(m) + 1];
    std::int64_t best = random == nullptr ? begin : begin + random->below(end - begin);
    double least = std::numeric_limits<double>::infinity();
    for (std::int64_t i = begin; random == nullptr && i < end; ++i) {
      const float* row = x.data_ptr<float>() + members.order[std::size_t(i)] * channels;
      const float* centre = mean.data_ptr<float>() + m * channels;
      double distance = 0;
      for (int axis = 0; axis < 3; ++axis) {
        const double step = double(row[axis]) - centre[axis];
        distance += step * step;
      }
      if (distance < least) best = i;
      least = std::min(least, distance);
    }
    rows.data_ptr<std::int64_t>()[m] = members.order[std::size_t(best)];
  }
  return rows;
}

/// [M]: the label of most points that have one; -1 where none has.
Tensor majorities(const Tensor& labels, const Members& members, std::int64_t classes) {
  const auto voxels = static_cast<std::int64_t>(members.starts.size()) - 1;
  const Tensor y = at::full({voxels}, -1, at::kLong);
  const std::int64_t* label = labels.data_ptr<std::int64_t>();
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes));
  for (std::int64_t m = 0; m < voxels; ++m) {
    std::fill(counts.begin(), counts.end(), 0);
    for (std::int64_t i = members.starts[std::size_t(m)]; i < members.starts[std::size_t(m) + 1];
         ++i) {
      const std::int64_t k = label[members.order[std::size_t(i)]];
      if (k >= 0) ++counts[std::size_t(k)];
    }
    const auto most = std::max_element(counts.begin(), counts.end());
    if (most != counts.end() && *most > 0) y.data_ptr<std::int64_t>()[m] = most - counts.begin();
  }
  return y;
}

/// [N, 3 + ...]: coordinates, features, normals.
Tensor channels_of(const PointCloud& cloud) {
  std::vector<Tensor> parts = {cloud.coordinates};
  for (const Tensor* part : {&cloud.features, &cloud.normals}) {
    if (part->defined()) parts.push_back(*part);
  }
  return at::cat(parts, 1).to(at::kFloat).contiguous();
}

}  // namespace

PointCloud PointDataset::moved_cloud(Split split, std::int64_t index, Random* augmentation) const {
  const std::int64_t number = index / views(split);
  PointCloud cloud = without_lost_points(read(split, number));
  if (augmentation != nullptr) {
    cloud = moved(std::move(cloud), options_.augmentation, *augmentation);
  } else {
    Random own = streams_.stream("corruption", static_cast<std::uint64_t>(split),
                                 static_cast<std::uint64_t>(number));
    cloud = moved(std::move(cloud), options_.corruption, own);
  }
  return seen_from(std::move(cloud), index % views(split));
}

NamedTensors PointDataset::make_example(Split split, std::int64_t index,
                                        Random* augmentation) const {
  const PointCloud cloud = moved_cloud(split, index, augmentation);
  const Voxels voxels = voxelise(cloud.coordinates, options_.grid, cloud.place);
  const Tensor channels = channels_of(cloud);
  const Members members = members_of(voxels, channels);
  const Tensor mean = means(channels, members);
  const Tensor features =
      options_.voxel == "mean"
          ? mean
          : channels.index_select(0, samples(channels, members, mean, augmentation));
  NamedTensors fields = {{"coord@point", cloud.coordinates.clone()},
                         {"inverse@point>voxel", voxels.inverse},
                         {"grid@voxel", voxels.grid},
                         {"feature@voxel", features}};
  if (cloud.labels.defined()) {
    fields.set("label@point", cloud.labels.clone());
    fields.set("label@voxel", majorities(cloud.labels.contiguous(), members, info_.classes));
  } else {
    fields.set("class", at::scalar_tensor(cloud.label, at::kLong));
  }
  if (options_.views > 1) {
    fields.set("view", at::scalar_tensor(index % views(split), at::kLong));
  }
  return fields;
}

std::int64_t PointDataset::cost(Split split, std::int64_t index) const {
  return points(split, index / views(split));
}

void PointDataset::set_fingerprint(std::uint64_t data) {
  PointOptions unmoved = options_;
  unmoved.augmentation = {};
  info_.fingerprint = hex(fingerprint(info_.name + ";" + OptionText::of(unmoved), data));
}

void PointDataset::describe_fields(std::int64_t features, bool each_point) {
  info_.unit = "points";
  info_.unit_field = "point";
  info_.fields = {{"coord@point", {-1, 3}, at::kFloat},
                  {"inverse@point>voxel", {-1}, at::kLong},
                  {"grid@voxel", {-1, 3}, at::kLong},
                  {"feature@voxel", {-1, 3 + features}, at::kFloat}};
  if (each_point) {
    info_.fields.push_back({"label@point", {-1}, at::kLong, {}, info_.classes});
    info_.fields.push_back({"label@voxel", {-1}, at::kLong, {}, info_.classes});
  } else {
    info_.fields.push_back({"class", {}, at::kLong, {}, info_.classes});
  }
  if (options_.views > 1) info_.fields.push_back({"view", {}, at::kLong, {}, options_.views});
}

}  // namespace attnlab
