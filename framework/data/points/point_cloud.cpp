#include "framework/data/points/point_cloud.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace attnlab {
namespace {

PointCloud chosen(PointCloud cloud, const Tensor& rows) {
  for (Tensor* part : {&cloud.coordinates, &cloud.features, &cloud.normals, &cloud.labels}) {
    if (part->defined()) *part = part->index_select(0, rows);
  }
  return cloud;
}

Tensor kept_rows(std::int64_t points, double drop, Random& random) {
  std::vector<std::int64_t> rows;
  const std::int64_t always = random.below(points);
  for (std::int64_t i = 0; i < points; ++i) {
    if (random.uniform() >= drop || i == always) rows.push_back(i);
  }
  return at::tensor(rows, at::kLong);
}

/// [3, 3], for rows of coordinates: x R.
Tensor turn_about_z(double angle) {
  const auto c = static_cast<float>(std::cos(angle)), s = static_cast<float>(std::sin(angle));
  return at::tensor({c, s, 0.f, -s, c, 0.f, 0.f, 0.f, 1.f}).view({3, 3});
}

Tensor mirror(bool x, bool y) { return at::tensor({x ? -1.f : 1.f, y ? -1.f : 1.f, 1.f}); }

void turn(PointCloud& cloud, const Tensor& by) {
  cloud.coordinates = cloud.coordinates.mm(by);
  if (cloud.normals.defined()) cloud.normals = cloud.normals.mm(by);
}

void reflect(PointCloud& cloud, const Tensor& signs) {
  cloud.coordinates = cloud.coordinates * signs;
  if (cloud.normals.defined()) cloud.normals = cloud.normals * signs;
}

Tensor noise(at::IntArrayRef sizes, double deviation, Random& random) {
  const Tensor all = at::empty(sizes);
  float* number = all.data_ptr<float>();
  for (std::int64_t i = 0; i < all.numel(); ++i) {
    number[i] = static_cast<float>(deviation * std::clamp(random.normal(), -4.0, 4.0));
  }
  return all;
}

}  // namespace

PointCloud moved(PointCloud cloud, const PointMoves& moves, Random& random) {
  if (cloud.size() == 0) return cloud;
  if (moves.drop > 0) {
    const Tensor rows = kept_rows(cloud.size(), moves.drop, random);
    cloud = chosen(std::move(cloud), rows);
  }
  if (moves.rotate > 0 && random.uniform() < moves.rotate_chance) {
    turn(cloud, turn_about_z((2 * random.uniform() - 1) * moves.rotate * std::numbers::pi / 180));
  }
  if (moves.scale > 0) {
    cloud.coordinates = cloud.coordinates * (1 + moves.scale * (2 * random.uniform() - 1));
  }
  if (moves.flip) {
    const bool x = random.uniform() < 0.5, y = random.uniform() < 0.5;
    reflect(cloud, mirror(x, y));
  }
  if (moves.jitter > 0) {
    cloud.coordinates = cloud.coordinates + noise({cloud.size(), 3}, moves.jitter, random);
  }
  return cloud;
}

PointCloud seen_from(PointCloud cloud, std::int64_t view) {
  constexpr double kScales[] = {1, 0.95, 1.05, 0.9, 1.1};
  if (view == 0) return cloud;
  cloud.coordinates = cloud.coordinates * kScales[view / 2];
  if (view % 2 == 1) reflect(cloud, mirror(true, true));
  return cloud;
}

PointCloud without_lost_points(PointCloud cloud) {
  const Tensor finite = cloud.coordinates.isfinite().all(1);
  if (!finite.all().item<bool>()) cloud = chosen(std::move(cloud), finite.nonzero().squeeze(1));
  if (cloud.size() == 0) {
    throw DataError(cloud.place + ": has no point with finite coordinates; remove it from the set");
  }
  for (const Tensor* part : {&cloud.features, &cloud.normals}) {
    if (!part->defined() || part->isfinite().all().item<bool>()) continue;
    const Tensor lost = part->isfinite().all(1).logical_not().nonzero();
    throw DataError(
        fmt::format("{}: point {} (of those with finite coordinates) has a feature that is not a "
                    "finite number; repair the file, or leave that feature out",
                    cloud.place, lost[0].item<std::int64_t>()));
  }
  return cloud;
}

}  // namespace attnlab
