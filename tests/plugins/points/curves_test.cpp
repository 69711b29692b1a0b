// Space-filling curves: every code once, neighbours on Hilbert's curve are neighbours in space.
#include <gtest/gtest.h>

#include <algorithm>

#include "framework/base/random.h"
#include "framework/nn/points/curves.h"
#include "framework/nn/points/voxels.h"
#include "tests/plugins/points/clouds.h"

namespace attnlab::curves_test {
namespace {

using Place = std::array<std::uint32_t, 3>;

/// The voxel of a code, level by level: of the eight octants the one whose code begins so.
Place place_of(Curve curve, std::uint64_t code) {
  Place place = {0, 0, 0};
  for (int level = 15; level >= 0; --level) {
    int fitting = 0;
    Place found{};
    for (std::uint32_t octant = 0; octant < 8; ++octant) {
      const Place tried = {place[0] | (octant >> 2) << level, place[1] | (octant >> 1 & 1) << level,
                           place[2] | (octant & 1) << level};
      if (curve_code(curve, tried[0], tried[1], tried[2]) >> (3 * level) != code >> (3 * level)) {
        continue;
      }
      ++fitting;
      found = tried;
    }
    EXPECT_EQ(fitting, 1) << "level " << level << " of code " << code;
    place = found;
  }
  return place;
}

std::int64_t distance(const Place& a, const Place& b) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < 3; ++i) sum += std::abs(std::int64_t(a[i]) - std::int64_t(b[i]));
  return sum;
}

TEST(Curves, AreBijectionsOfSmallCubes) {
  constexpr std::uint32_t kSide = 16;
  for (const Curve curve : kCurves) {
    std::vector<bool> seen(kSide * kSide * kSide);
    for (std::uint32_t x = 0; x < kSide; ++x) {
      for (std::uint32_t y = 0; y < kSide; ++y) {
        for (std::uint32_t z = 0; z < kSide; ++z) {
          const std::uint64_t code = curve_code(curve, x, y, z);
          ASSERT_LT(code, seen.size());
          EXPECT_FALSE(seen[code]);
          seen[code] = true;
        }
      }
    }
  }
}

// Each level is a bijection of octants below any place, up to 16 bits.
TEST(Curves, HaveOneVoxelForEachCodeOf48Bits) {
  Random random(3);
  for (const Curve curve : kCurves) {
    for (int i = 0; i < 300; ++i) {
      const std::uint64_t code = random() >> 16;
      const Place place = place_of(curve, code);
      EXPECT_EQ(curve_code(curve, place[0], place[1], place[2]), code);
    }
  }
}

TEST(Curves, OfHilbertStepToAVoxelThatSharesAFace) {
  Random random(4);
  for (const Curve curve : {Curve::hilbert, Curve::hilbert_transposed}) {
    for (int i = 0; i < 300; ++i) {
      // Steps across the borders of large cubes are among them.
      const std::uint64_t code =
          (random() >> 16 | ((1ULL << random.below(48)) - 1)) & ((1ULL << 48) - 2);
      EXPECT_EQ(distance(place_of(curve, code), place_of(curve, code + 1)), 1) << code;
    }
    EXPECT_EQ(place_of(curve, 0), (Place{0, 0, 0}));
  }
}

TEST(Curves, OfZInterleaveBitsWithXFirst) {
  EXPECT_EQ(curve_code(Curve::z, 1, 0, 0), 4U);
  EXPECT_EQ(curve_code(Curve::z, 0, 1, 0), 2U);
  EXPECT_EQ(curve_code(Curve::z, 0, 0, 1), 1U);
  EXPECT_EQ(curve_code(Curve::z_transposed, 1, 0, 0), 2U);
  EXPECT_EQ(curve_code(Curve::z, 0xffff, 0xffff, 0xffff), (1ULL << 48) - 1);
}

// Skilling's algorithm as he wrote it, on three axes of 16 bits.
std::uint64_t skilling(Place x) {
  for (std::uint32_t q = 1U << 15; q > 1; q >>= 1) {
    const std::uint32_t p = q - 1;
    for (std::size_t i = 0; i < 3; ++i) {
      if (x[i] & q) {
        x[0] ^= p;
      } else {
        const std::uint32_t t = (x[0] ^ x[i]) & p;
        x[0] ^= t;
        x[i] ^= t;
      }
    }
  }
  for (std::size_t i = 1; i < 3; ++i) x[i] ^= x[i - 1];
  std::uint32_t t = 0;
  for (std::uint32_t q = 1U << 15; q > 1; q >>= 1) {
    if (x[2] & q) t ^= q - 1;
  }
  for (std::uint32_t& axis : x) axis ^= t;
  return curve_code(Curve::z, x[0], x[1], x[2]);
}

TEST(Curves, OfHilbertAreSkillings) {
  Random random(5);
  for (int i = 0; i < 2000; ++i) {
    const auto axis = [&] { return static_cast<std::uint32_t>(random.below(65536)); };
    const Place place = {axis(), axis(), axis()};
    EXPECT_EQ(curve_code(Curve::hilbert, place[0], place[1], place[2]), skilling(place));
    EXPECT_EQ(curve_code(Curve::hilbert_transposed, place[1], place[0], place[2]), skilling(place));
  }
}

TEST(Curves, FillCubesWithinCubes) {
  Random random(6);
  for (const Curve curve : kCurves) {
    std::map<std::uint64_t, Place> parents;
    for (int i = 0; i < 4000; ++i) {
      const auto axis = [&] { return static_cast<std::uint32_t>(random.below(32)); };
      const Place place = {axis(), axis(), axis()};
      const Place parent = {place[0] >> 1, place[1] >> 1, place[2] >> 1};
      const auto found =
          parents.emplace(curve_code(curve, place[0], place[1], place[2]) >> 3, parent).first;
      EXPECT_EQ(found->second, parent);
    }
  }
}

// The published pooling keeps the codes of the finest voxels, and shifts them.
TEST(Curves, OfVoxelsThatHoldOthersAreTheirCodesCutShort) {
  const testing::Cloud cloud = testing::random_cloud({400, 300}, 60);
  const std::int64_t on_curve = (std::int64_t{1} << 48) - 1;
  for (const Curve curve : kCurves) {
    const Tensor codes = curve_codes(cloud.keys, curve), batch = codes.bitwise_and(~on_curve);
    Tensor keys = cloud.keys, rows = at::arange(keys.size(0));
    for (std::int64_t halvings = 1; halvings <= 16; ++halvings) {
      const UniqueKeys parents = parent_keys(keys);
      keys = parents.keys;
      rows = parents.rows.index_select(0, rows);
      const Tensor cut = codes.bitwise_and(on_curve).bitwise_right_shift(3 * halvings) + batch;
      EXPECT_TRUE(curve_codes(keys, curve, halvings).index_select(0, rows).equal(cut)) << halvings;
    }
  }
  EXPECT_EQ(curve_codes(cloud.keys, Curve::hilbert, 40).bitwise_and(on_curve).max().item<int>(), 0);
}

TEST(Curves, KeepCloudsOfABatchApart) {
  const testing::Cloud cloud = testing::random_cloud({200, 100, 150}, 40);
  for (const Curve curve : kCurves) {
    const Tensor order = sorting_order(curve_codes(cloud.keys, curve));
    const auto* end = cloud.offsets.data_ptr<std::int64_t>();
    for (std::int64_t b = 0; b < 3; ++b) {
      const Tensor part = order.slice(0, end[b], end[b + 1]);
      EXPECT_TRUE(std::get<0>(part.sort()).equal(at::arange(end[b], end[b + 1])));
    }
  }
}

TEST(SortingOrder, IsStableAndThatOfAnySort) {
  Random random(7);
  for (const std::int64_t range : {std::int64_t{1}, std::int64_t{3}, std::int64_t{1} << 62}) {
    std::vector<std::int64_t> numbers(1000), expected(1000);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = random.below(range);
      expected[i] = static_cast<std::int64_t>(i);
    }
    std::stable_sort(expected.begin(), expected.end(), [&](std::int64_t a, std::int64_t b) {
      return numbers[std::size_t(a)] < numbers[std::size_t(b)];
    });
    EXPECT_TRUE(sorting_order(at::tensor(numbers)).equal(at::tensor(expected)));
  }
  EXPECT_EQ(sorting_order(at::empty({0}, at::kLong)).numel(), 0);
}

}  // namespace
}  // namespace attnlab::curves_test
