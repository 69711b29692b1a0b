// What is kept of a cloud for the report: fewer points, bytes, and attention over voxels.
#include "runner/inspect/cloud_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/support/plugins.h"

namespace attnlab::cloud_view_test {
namespace {

using ::testing::ElementsAre;

Tensor longs(const std::vector<std::int64_t>& values) { return at::tensor(values, at::kLong); }

TEST(ThinnedCloud, IsTheWholeCloudWhereThatIsSmall) {
  EXPECT_THAT(thinned(at::zeros({4, 3}, at::kLong), Tensor(), 4, 2), ElementsAre(0, 1, 2, 3));
}

TEST(ThinnedCloud, KeepsTheShareOfEachClassAndOfEachPartOfSpace) {
  const std::int64_t n = 30000, most = 1000;
  at::manual_seed(1);
  const Tensor grid = at::randint(64, {n, 3}, at::kLong);
  // Half of the points, three tenths, a fifth less 90, and 90 without a label, wherever they are.
  Tensor labels = at::zeros({n}, at::kLong);
  const Tensor order = at::randperm(n);
  labels.index_fill_(0, order.narrow(0, 0, 9000), 1);
  labels.index_fill_(0, order.narrow(0, 9000, 5910), 7);
  labels.index_fill_(0, order.narrow(0, 14910, 90), -1);
  const std::vector<std::int64_t> rows = thinned(grid, labels, most, 17);
  ASSERT_EQ(rows.size(), 1000U);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
  EXPECT_EQ(std::set<std::int64_t>(rows.begin(), rows.end()).size(), 1000U) << "none twice";
  EXPECT_TRUE(std::binary_search(rows.begin(), rows.end(), 17));
  std::map<std::int64_t, int> counts;
  int near = 0;  // in an eighth of the space
  for (const std::int64_t row : rows) {
    ++counts[labels[row].item<std::int64_t>()];
    near += grid[row].lt(32).all().item<bool>() ? 1 : 0;
  }
  EXPECT_NEAR(counts[0], 500, 2);
  EXPECT_NEAR(counts[1], 300, 2);
  EXPECT_NEAR(counts[7], 197, 2);
  EXPECT_NEAR(counts[-1], 3, 2);
  EXPECT_NEAR(near, 125, 15) << "a draw at random would scatter by 10";
  EXPECT_EQ(thinned(grid, labels, most, 17), rows) << "the same each time";
}

TEST(ThinnedCloud, HoldsWhateverPointIsAskedFor) {
  const Tensor grid = at::arange(90).view({30, 3});
  for (std::int64_t always = 0; always < 30; ++always) {
    const std::vector<std::int64_t> rows = thinned(grid, Tensor(), 7, always);
    EXPECT_EQ(std::set<std::int64_t>(rows.begin(), rows.end()).size(), 7U);
    EXPECT_TRUE(std::binary_search(rows.begin(), rows.end(), always)) << always;
  }
}

/// Five tokens in two patches of three; the second borrows token 1 from the first.
struct Borrowing {
  Tensor weights = at::rand({2, 3, 3}, at::kDouble).softmax(-1);
  Tensor slots = longs({4, 1, 0, 2, 1, 3}).view({2, 3});
  Tensor token = longs({0, 0, 1, 2, 3, 4});  // voxels 0 and 1 lie in one token
};

TEST(AttentionOfVoxel, IsTheRowOfItsTokenAndSumsToOne) {
  at::manual_seed(2);
  const Borrowing given;
  const VoxelAttention of_three = attention_of_voxel(given.weights, given.slots, given.token, 4);
  const auto weight = [&](std::int64_t k) { return given.weights[1][2][k].item<double>(); };
  EXPECT_TRUE(
      at::allclose(of_three.weight,
                   at::tensor({-1.0, -1.0, weight(1), weight(0), weight(2), -1.0}, at::kDouble)));
  EXPECT_EQ(of_three.tokens, 3);
  // Token 0 is that of two voxels: each shows its weight, and the sum is over tokens.
  const VoxelAttention of_zero = attention_of_voxel(given.weights, given.slots, given.token, 1);
  EXPECT_EQ(of_zero.weight[0].item<double>(), of_zero.weight[1].item<double>());
  const double sum = of_zero.weight[0].item<double>() + of_zero.weight[2].item<double>() +
                     of_zero.weight[5].item<double>();
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST(AttentionOfVoxel, OfABorrowedTokenIsThatOfItsOwnPatch) {
  at::manual_seed(3);
  const Borrowing given;
  const VoxelAttention of_one = attention_of_voxel(given.weights, given.slots, given.token, 2);
  EXPECT_EQ(of_one.weight[2].item<double>(), given.weights[0][1][1].item<double>());
  EXPECT_EQ(of_one.weight[3].item<double>(), -1) << "token 2 is in the other patch";
}

TEST(AttentionOfVoxel, IsNoneWhereNothingFits) {
  const Borrowing given;
  EXPECT_FALSE(attention_of_voxel(Tensor(), given.slots, given.token, 0).weight.defined());
  EXPECT_FALSE(attention_of_voxel(given.weights, given.slots.narrow(0, 0, 1), given.token, 0)
                   .weight.defined());
  EXPECT_FALSE(attention_of_voxel(given.weights.narrow(2, 0, 2), given.slots, given.token, 0)
                   .weight.defined());
}

TEST(PackedCloud, KeepsPlacesToTheThousandthOfAPercent) {
  at::manual_seed(4);
  const Tensor places = at::randn({200, 3}) * at::tensor({50.0F, 5.0F, 0.5F}) + 7;
  const PackedPlaces packed = packed_places(places);
  ASSERT_EQ(packed.bytes.size(), 1200U);
  for (std::int64_t i = 0; i < 600; ++i) {
    const auto byte = [&](std::int64_t k) {
      return static_cast<std::uint8_t>(packed.bytes[static_cast<std::size_t>(k)]);
    };
    const double share = (byte(2 * i) + 256.0 * byte(2 * i + 1)) / 65535;
    EXPECT_NEAR(packed.low[i % 3] + share * packed.side, places.view({-1})[i].item<double>(),
                packed.side * 1e-5);
  }
  EXPECT_EQ(packed_places(at::zeros({1, 3})).bytes, std::string(6, '\0')) << "one point, no side";
}

TEST(PackedCloud, KeepsClassesAndWeights) {
  EXPECT_EQ(packed_classes(longs({0, 3, -1, 254, -100})), std::string("\x00\x03\xff\xfe\xff", 5));
  const Tensor weights = at::tensor({0.0, 0.1, 0.2, -1.0}, at::kDouble);
  EXPECT_EQ(packed_weights(weights, 0.2), std::string("\x00\x7f\xfe\xff", 4));
  EXPECT_EQ(packed_weights(weights.narrow(0, 0, 1), 0), std::string(1, '\0'));
}

}  // namespace
}  // namespace attnlab::cloud_view_test
