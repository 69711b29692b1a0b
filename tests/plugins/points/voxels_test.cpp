// Voxels: points and the voxels that hold them, and the cubes of twice the size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "framework/nn/points/rows.h"
#include "tests/plugins/points/clouds.h"
#include "tests/support/data_files.h"
#include "tests/support/gradcheck.h"

namespace attnlab::voxels_test {
namespace {

using attnlab::testing::mentions;
using testing::Cloud;
using testing::message_of;
using testing::random_cloud;

TEST(Voxels, HoldTheirPoints) {
  at::manual_seed(1);
  const Tensor points = at::randn({500, 3}) * 3;
  const Voxels voxels = voxelise(points, 0.5, "cloud");
  const Tensor cells = (points / 0.5).floor().to(at::kLong);
  const Tensor least = std::get<0>(cells.min(0));
  EXPECT_TRUE(voxels.grid.index_select(0, voxels.inverse).equal(cells - least));
  EXPECT_EQ(voxels.inverse.max().item<std::int64_t>() + 1, voxels.grid.size(0));
  const Tensor keys = voxel_keys(voxels.grid, at::tensor({std::int64_t{0}, voxels.grid.size(0)}));
  EXPECT_TRUE(keys.slice(0, 1).gt(keys.slice(0, 0, -1)).all().item<bool>()) << "once each, rising";
}

TEST(Voxels, DoNotDependOnTheOrderOfPoints) {
  at::manual_seed(2);
  const Tensor points = at::rand({300, 3}), order = at::randperm(300);
  const Voxels voxels = voxelise(points, 0.2, ""),
               other = voxelise(points.index_select(0, order), 0.2, "");
  EXPECT_TRUE(voxels.grid.equal(other.grid));
  EXPECT_TRUE(voxels.inverse.index_select(0, order).equal(other.inverse));
}

TEST(Voxels, OfFewPoints) {
  EXPECT_EQ(voxelise(at::empty({0, 3}), 1, "").grid.sizes(), (std::vector<std::int64_t>{0, 3}));
  const Voxels one = voxelise(at::tensor({-4.f, 2.f, 1e4f}).view({1, 3}), 0.05, "");
  EXPECT_TRUE(one.grid.equal(at::zeros({1, 3}, at::kLong)));
}

TEST(Voxels, NameCloudsThatHaveNone) {
  Tensor points = at::zeros({3, 3});
  points[1][2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(message_of<DataError>([&] { voxelise(points, 1, "a.ply"); }),
              mentions("a.ply:", "point 1", "finite"));
  points[1][2] = 5000;
  EXPECT_THAT(message_of<DataError>([&] { voxelise(points, 0.05, "a.ply"); }),
              mentions("a.ply:", "100001 voxels", "0.05 wide", "along z"));
  EXPECT_THROW(voxelise(at::zeros({3, 2}), 1, ""), ShapeError);
}

TEST(VoxelKeys, RefuseWhatTheyCannotHold) {
  const Tensor ends = at::tensor({0, 1}, at::kLong);
  EXPECT_THROW(voxel_keys(at::tensor({0, 65536, 0}, at::kLong).view({1, 3}), ends), DataError);
  EXPECT_THROW(voxel_keys(at::tensor({0, -1, 0}, at::kLong).view({1, 3}), ends), DataError);
  EXPECT_THROW(voxel_keys(at::zeros({1, 3}), ends), ShapeError);
}

TEST(Pooling, AndUnpoolingAreInverseMaps) {
  const Cloud cloud = random_cloud({300, 1, 200}, 20);
  const UniqueKeys parents = parent_keys(cloud.keys);
  const Tensor places = voxel_places(parents.keys).index_select(0, parents.rows);
  EXPECT_TRUE(places.equal(cloud.grid.div(2, "floor")));
  EXPECT_TRUE((parents.keys.index_select(0, parents.rows).bitwise_right_shift(48))
                  .equal(cloud.keys.bitwise_right_shift(48)));
  // What is unpooled and pooled again is what it was.
  const RowMap map = row_map(parents.rows, parents.keys.size(0));
  const Tensor x = at::randn({parents.keys.size(0), 5}, at::kDouble);
  EXPECT_TRUE(max_rows(take_rows(x, map), map).equal(x));
  const Tensor counts = sum_rows(at::ones({cloud.keys.size(0), 1}, at::kDouble), map);
  EXPECT_TRUE(at::allclose(sum_rows(take_rows(x, map), map), x * counts, 0, 1e-12));
}

TEST(Rows, AreThoseOfPlainIndexing) {
  const Tensor source = at::tensor({2, -1, 0, 2, 2}, at::kLong);
  const RowMap map = row_map(source, 4);
  EXPECT_EQ(map.most, 3);
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const Tensor x = at::arange(8).view({4, 2}).to(type), y = at::arange(10).view({5, 2}).to(type);
    EXPECT_TRUE(
        take_rows(x, map).equal(at::tensor({4, 5, 0, 0, 0, 1, 4, 5, 4, 5}).view({5, 2}).to(type)));
    EXPECT_TRUE(
        sum_rows(y, map).equal(at::tensor({4, 5, 0, 0, 14, 17, 0, 0}).view({4, 2}).to(type)));
  }
  EXPECT_THROW(take_rows(at::zeros({3, 2}), map), ShapeError);
}

TEST(Rows, Of16BitsAddUpInFloat32) {
  const RowMap map = row_map(at::zeros({5000}, at::kLong), 1);
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    EXPECT_TRUE(sum_rows(at::ones({5000, 2}, dtype), map).equal(at::full({1, 2}, 5000, dtype)));
  }
}

TEST(Rows, OfTheLargestUser) {
  const RowMap map = row_map(at::tensor({1, 0, 1, 1}, at::kLong), 2);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    Tensor y = at::tensor({1, 9, 3, 3, 5, 2, 5, 4}).view({4, 2}).to(type).requires_grad_();
    const Tensor x = max_rows(y, map);
    EXPECT_TRUE(x.equal(at::tensor({3, 3, 5, 9}).view({2, 2}).to(type)));
    const Tensor grad = torch::autograd::grad({x.sum()}, {y})[0];
    EXPECT_TRUE(grad.equal(at::tensor({0, 1, 1, 1, 1, 0, 0, 0}).view({4, 2}).to(type)))
        << "of equal ones the first";
  }
}

TEST(Rows, HaveTheirGradients) {
  at::manual_seed(3);
  const RowMap map = row_map(at::tensor({2, -1, 0, 2, 1}, at::kLong), 3);
  const Tensor x = at::randn({3, 2}, at::kDouble), y = at::randn({5, 2}, at::kDouble);
  const auto take = [&](const std::vector<Tensor>& in) { return take_rows(in[0], map).sin(); };
  const auto sum = [&](const std::vector<Tensor>& in) { return sum_rows(in[0], map).sin(); };
  const auto most = [&](const std::vector<Tensor>& in) { return max_rows(in[0], map).sin(); };
  EXPECT_LT(testing::gradient_error(take, {x}), 1e-8);
  EXPECT_LT(testing::gradient_error(sum, {y}), 1e-8);
  EXPECT_LT(testing::gradient_error(most, {y}), 1e-8);
  EXPECT_LT(testing::second_gradient_error(take, {x}), 1e-8);
  EXPECT_LT(testing::second_gradient_error(sum, {y}), 1e-8);
  EXPECT_LT(testing::second_gradient_error(most, {y}), 1e-8);
}

}  // namespace
}  // namespace attnlab::voxels_test
