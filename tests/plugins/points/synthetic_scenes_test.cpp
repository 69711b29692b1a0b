// Synthetic scenes: rays against geometry worked out by hand, and points that lie on something.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/data/loader.h"
#include "plugins/datasets/points/synthetic_scenes/scene.h"
#include "tests/support/plugins.h"

namespace attnlab::synthetic_scenes_test {
namespace {

using testing::make_dataset;

Scene room() {
  Scene scene;
  scene.size = {4, 5, 3};
  return scene;
}

TEST(SceneRays, MeetTheRoom) {
  const Vector3 middle = {1, 2, 1};
  EXPECT_DOUBLE_EQ(first_hit(room(), middle, {1, 0, 0}).distance, 3);
  EXPECT_DOUBLE_EQ(first_hit(room(), middle, {0, -1, 0}).distance, 2);
  EXPECT_EQ(first_hit(room(), middle, {0, 0, 1}).label, 1);
  EXPECT_EQ(first_hit(room(), middle, {0, 0, -1}).label, 0);
  EXPECT_EQ(first_hit(room(), middle, {0.6, 0, 0.8}).label, 1);
  EXPECT_NEAR(first_hit(room(), middle, {0.6, 0, 0.8}).distance, 2.5, 1e-12);
}

TEST(SceneRays, MeetSolidsAndNothingBehindThem) {
  Scene scene = room();
  scene.solids = {{SolidKind::sphere, {3, 2, 1}, {0.5, 0.5, 0.5}, 0, 8, 0.5},
                  {SolidKind::box, {2.2, 2, 1}, {0.1, 1, 1}, 0, 5, 0.5},
                  {SolidKind::cylinder, {1, 4, 1}, {0.5, 0.5, 1}, 0, 7, 0.5}};
  const Vector3 from = {1, 2, 1};
  EXPECT_NEAR(first_hit(scene, from, {1, 0, 0}).distance, 1.1, 1e-12) << "the box hides the ball";
  EXPECT_EQ(first_hit(scene, from, {1, 0, 0}).label, 5);
  EXPECT_NEAR(first_hit(scene, from, {0, 1, 0}).distance, 1.5, 1e-12);
  EXPECT_EQ(first_hit(scene, from, {0, 1, 0}).label, 7);
  EXPECT_NEAR(first_hit(scene, {1, 4, 2.9}, {0, 0, -1}).distance, 0.9, 1e-12) << "its lid";
  scene.solids.erase(scene.solids.begin() + 1);
  EXPECT_NEAR(first_hit(scene, from, {1, 0, 0}).distance, 1.5, 1e-12);
  EXPECT_EQ(first_hit(scene, from, {1, 0, 0}).label, 8);
}

TEST(SceneRays, MeetTurnedBoxes) {
  Scene scene = room();
  scene.solids = {{SolidKind::box, {3, 2, 1}, {0.5, 0.5, 1}, std::acos(-1.0) / 4, 3, 0.5}};
  const Hit hit = first_hit(scene, {1, 2, 1}, {1, 0, 0});
  EXPECT_NEAR(hit.distance, 2 - std::sqrt(0.5), 1e-9) << "an edge";
  EXPECT_NEAR(first_hit(scene, {1, 2.2, 1}, {1, 0, 0}).facing, std::sqrt(0.5), 1e-9);
}

TEST(SyntheticScenes, HaveAllTheirFields) {
  const auto dataset = make_dataset("synthetic_scenes", "{rays: 3000, grid: 0.1}");
  const NamedTensors scene = dataset->example(Split::train, 0, nullptr);
  const Tensor points = scene.at("coord@point"), inverse = scene.at("inverse@point>voxel");
  EXPECT_EQ(points.sizes(), (std::vector<std::int64_t>{3000, 3}));
  const std::int64_t voxels = scene.at("grid@voxel").size(0);
  EXPECT_LT(voxels, 3000);
  const Tensor cells = (points.to(at::kDouble) / 0.1).floor().to(at::kLong);
  EXPECT_TRUE(
      scene.at("grid@voxel").index_select(0, inverse).equal(cells - std::get<0>(cells.min(0))));
  // A voxel's coordinates are the mean of its points'.
  const Tensor sums = at::zeros({voxels, 3}).index_add(0, inverse, points);
  const Tensor counts = at::bincount(inverse).unsqueeze(1);
  EXPECT_TRUE(at::allclose(scene.at("feature@voxel").narrow(1, 0, 3), sums / counts, 1e-4, 1e-4));
  EXPECT_EQ(dataset->cost(Split::train, 0), 3000);
}

TEST(SyntheticScenes, ShowEveryClass) {
  const auto dataset = make_dataset("synthetic_scenes", "{rays: 2000}");
  Tensor counts = at::zeros({10}, at::kLong);
  for (std::int64_t i = 0; i < 30; ++i) {
    counts += dataset->example(Split::test, i, nullptr).at("label@point").bincount({}, 10);
  }
  EXPECT_TRUE(counts.gt(100).all().item<bool>()) << counts;
}

TEST(SyntheticScenes, AreSeenInTenWays) {
  const auto dataset =
      make_dataset("synthetic_scenes", "{rays: 500, views: 10, train: 2, test: 3}");
  EXPECT_EQ(dataset->size(Split::train), 2) << "views are for evaluations alone";
  EXPECT_EQ(dataset->example(Split::train, 1, nullptr).at("view").item<std::int64_t>(), 0);
  EXPECT_EQ(dataset->size(Split::test), 30);
  const Tensor first = dataset->example(Split::test, 10, nullptr).at("coord@point");
  for (std::int64_t view = 0; view < 10; ++view) {
    const NamedTensors seen = dataset->example(Split::test, 10 + view, nullptr);
    EXPECT_EQ(seen.at("view").item<std::int64_t>(), view);
    const double scale = std::array{1.0, 0.95, 1.05, 0.9, 1.1}[std::size_t(view / 2)];
    const double side = view % 2 == 0 ? 1 : -1;
    EXPECT_TRUE(at::allclose(seen.at("coord@point").select(1, 0),
                             first.select(1, 0) * (scale * side), 1e-5, 1e-5));
    EXPECT_TRUE(
        at::allclose(seen.at("coord@point").select(1, 2), first.select(1, 2) * scale, 1e-5, 1e-5));
  }
}

TEST(SyntheticScenes, AreMovedInTrainingAndTriedInEvaluation) {
  const auto moved = make_dataset(
      "synthetic_scenes",
      "{rays: 800, augmentation: {drop: 0.5, rotate: 180, scale: 0.1, flip: true, jitter: 0.01}}");
  Random stream(1);
  const std::int64_t kept = moved->example(Split::train, 0, &stream).at("coord@point").size(0);
  EXPECT_NEAR(double(kept), 400, 80);
  EXPECT_EQ(moved->example(Split::train, 0, nullptr).at("coord@point").size(0), 800);
  const auto tried = make_dataset("synthetic_scenes", "{rays: 800, corruption: {drop: 0.9}}");
  const NamedTensors once = tried->example(Split::test, 2, nullptr);
  EXPECT_NEAR(double(once.at("coord@point").size(0)), 80, 40);
  EXPECT_TRUE(
      once.at("coord@point").equal(tried->example(Split::test, 2, nullptr).at("coord@point")));
  EXPECT_NE(tried->info().fingerprint,
            make_dataset("synthetic_scenes", "{rays: 800}")->info().fingerprint);
}

TEST(SyntheticScenes, FillBatchesUpToABudgetOfPoints) {
  const auto dataset = make_dataset("synthetic_scenes", "{rays: 1000, train: 10}");
  const EpochPlan plan = dataset->plan({.training = true, .budget = 3500});
  Loader loader(*dataset, RandomStreams(0), plan, {.workers = 0});
  std::int64_t scenes = 0;
  while (const std::optional<Batch> batch = loader.next()) {
    EXPECT_LE(units_of(dataset->info(), *batch), 3500);
    EXPECT_EQ(batch->fields.at("inverse@point>voxel").max().item<std::int64_t>() + 1,
              rows_of(*batch, "voxel"));
    scenes += batch->size;
  }
  EXPECT_EQ(scenes, 10);
}

}  // namespace
}  // namespace attnlab::synthetic_scenes_test
