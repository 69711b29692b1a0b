// How clouds are moved: each move by its draws, and what it leaves as it was.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numbers>

#include "framework/data/points/point_cloud.h"

namespace attnlab::point_moves_test {
namespace {

PointCloud made(std::int64_t points = 50) {
  at::manual_seed(1);
  PointCloud cloud;
  cloud.coordinates = at::randn({points, 3});
  cloud.features = at::randn({points, 2});
  cloud.normals = at::randn({points, 3});
  cloud.labels = at::arange(points);
  return cloud;
}

PointCloud moved_by(const PointMoves& moves, std::uint64_t seed, const PointCloud& cloud = made()) {
  Random random(seed);
  return moved(cloud, moves, random);
}

/// Rows turned by an angle from x towards y.
Tensor turned(const Tensor& rows, double angle) {
  const Tensor x = rows.select(1, 0), y = rows.select(1, 1);
  return at::stack({x * std::cos(angle) - y * std::sin(angle),
                    x * std::sin(angle) + y * std::cos(angle), rows.select(1, 2)},
                   1);
}

double angle_between(const Tensor& from, const Tensor& to) {
  const auto of = [](const Tensor& rows) {
    return std::atan2(rows[0][1].item<double>(), rows[0][0].item<double>());
  };
  return std::remainder(of(to) - of(from), 2 * std::numbers::pi);
}

TEST(PointMoves, TurnAboutZByAnAngleWithinBounds) {
  const PointCloud cloud = made();
  double least = 0, most = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const PointCloud after = moved_by({.rotate = 30}, seed);
    const double angle = angle_between(cloud.coordinates, after.coordinates);
    EXPECT_TRUE(at::allclose(after.coordinates, turned(cloud.coordinates, angle), 0, 1e-5));
    EXPECT_TRUE(at::allclose(after.normals, turned(cloud.normals, angle), 0, 1e-5));
    EXPECT_TRUE(after.features.equal(cloud.features));
    least = std::min(least, angle * 180 / std::numbers::pi);
    most = std::max(most, angle * 180 / std::numbers::pi);
  }
  EXPECT_GE(least, -30.001);
  EXPECT_LE(most, 30.001);
  EXPECT_LT(least, -27);
  EXPECT_GT(most, 27);
}

TEST(PointMoves, TurnWithTheirChance) {
  const PointCloud cloud = made();
  int turned = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const PointCloud after = moved_by({.rotate = 180, .rotate_chance = 0.25}, seed, cloud);
    turned += after.coordinates.equal(cloud.coordinates) ? 0 : 1;
  }
  EXPECT_NEAR(turned / 2000.0, 0.25, 0.04);
}

TEST(PointMoves, ScaleByOneNumberAndNotTheNormals) {
  const PointCloud cloud = made();
  double least = 1, most = 1;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const PointCloud after = moved_by({.scale = 0.1}, seed);
    const double factor =
        after.coordinates[0][0].item<double>() / cloud.coordinates[0][0].item<double>();
    EXPECT_TRUE(at::allclose(after.coordinates, cloud.coordinates * factor, 1e-5, 1e-6));
    EXPECT_TRUE(after.normals.equal(cloud.normals));
    least = std::min(least, factor);
    most = std::max(most, factor);
  }
  EXPECT_GE(least, 0.9 - 1e-5);
  EXPECT_LE(most, 1.1 + 1e-5);
  EXPECT_LT(least, 0.91);
  EXPECT_GT(most, 1.09);
}

TEST(PointMoves, MirrorEachAxisWithAChanceOfOneHalf) {
  const PointCloud cloud = made();
  std::map<std::pair<bool, bool>, int> seen;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const PointCloud after = moved_by({.flip = true}, seed, cloud);
    const Tensor ratio = after.coordinates[0] / cloud.coordinates[0];
    EXPECT_TRUE(after.coordinates.equal(cloud.coordinates * ratio.round()));
    EXPECT_TRUE(after.normals.equal(cloud.normals * ratio.round()));
    EXPECT_EQ(ratio[2].item<double>(), 1);
    ++seen[{ratio[0].item<double>() < 0, ratio[1].item<double>() < 0}];
  }
  EXPECT_EQ(seen.size(), 4U);
  for (const auto& [sides, count] : seen) EXPECT_NEAR(count / 2000.0, 0.25, 0.04);
}

TEST(PointMoves, JitterByNoiseThatIsCutAtFourDeviations) {
  PointCloud cloud = made(100000);
  cloud.coordinates.zero_();
  const PointCloud after = moved_by({.jitter = 0.01}, 3, cloud);
  const Tensor noise = after.coordinates.to(at::kDouble);
  EXPECT_NEAR(noise.std().item<double>(), 0.01, 1e-4);
  EXPECT_NEAR(noise.mean().item<double>(), 0, 1e-4);
  EXPECT_NEAR(noise.abs().max().item<double>(), 0.04, 1e-8) << "of 300,000 some 19 go beyond";
  EXPECT_TRUE(after.normals.equal(cloud.normals));
}

TEST(PointMoves, DropPointsWithAllTheirNumbers) {
  const PointCloud cloud = made();
  const PointCloud after = moved_by({.drop = 0.5}, 4);
  EXPECT_LT(after.size(), 50);
  EXPECT_TRUE(after.coordinates.equal(cloud.coordinates.index_select(0, after.labels)));
  EXPECT_TRUE(after.features.equal(cloud.features.index_select(0, after.labels)));
  EXPECT_TRUE(after.normals.equal(cloud.normals.index_select(0, after.labels)));
  EXPECT_EQ(moved_by({.drop = 0.999}, 5, made(1)).size(), 1) << "one always stays";
}

}  // namespace
}  // namespace attnlab::point_moves_test
