#include "framework/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <set>

#include "framework/base/error.h"

namespace attnlab::random_test {
namespace {

// First outputs of splitmix64 from state 1234567, as published with the reference implementation.
TEST(Random, IsSplitmix64) {
  Random random(1234567);
  EXPECT_EQ(random(), 6457827717110365317ULL);
  EXPECT_EQ(random(), 3203168211198807973ULL);
  EXPECT_EQ(random(), 9817491932198370423ULL);
  EXPECT_EQ(random(), 4593380528125082431ULL);
  EXPECT_EQ(random(), 16408922859458223821ULL);
}

// Recorded runs and checkpoints depend on these: a change here breaks resuming and repeating them.
TEST(RandomStreams, KeysStayAsTheyAre) {
  EXPECT_EQ(RandomStreams(0).key("order"), 13933319566629939355ULL);
  EXPECT_EQ(RandomStreams(1).key("augmentation", 7, 12), 13983202596926015757ULL);
  EXPECT_EQ(RandomStreams(~0ULL).key("", ~0ULL, 0), 11605031186072590090ULL);
  EXPECT_EQ(permutation(8, RandomStreams(3).stream("order", 2)),
            (std::vector<std::int64_t>{2, 1, 6, 0, 5, 7, 3, 4}));
}

TEST(RandomStreams, DifferInSeedNameAndBothNumbers) {
  std::set<std::uint64_t> keys;
  std::size_t count = 0;
  for (std::uint64_t seed : {0, 1, 2}) {
    for (const char* name : {"initialisation", "order", "augmentation", "dropout", "split", ""}) {
      for (std::uint64_t a = 0; a < 20; ++a) {
        for (std::uint64_t b = 0; b < 20; ++b, ++count) {
          keys.insert(RandomStreams(seed).key(name, a, b));
        }
      }
    }
  }
  EXPECT_EQ(keys.size(), count);
}

// Streams of neighbouring names and numbers must look unrelated: about half of the bits differ.
TEST(RandomStreams, OfNeighboursAreIndependent) {
  double differing = 0;
  constexpr int kPairs = 2000;
  const RandomStreams streams(5);
  for (std::uint64_t i = 0; i < kPairs; ++i) {
    Random here = streams.stream("order", 0, i), there = streams.stream("order", 0, i + 1);
    differing += std::popcount(here() ^ there());
  }
  EXPECT_NEAR(differing / kPairs, 32.0, 0.5);
}

TEST(Random, UniformStaysInRangeWithTheRightMoments) {
  Random random(1);
  double sum = 0, squares = 0;
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) {
    const double value = random.uniform();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3.0, 0.005);
}

TEST(Random, NormalHasTheRightMoments) {
  Random random(2);
  std::array<double, 5> moments{};
  constexpr int kDraws = 200000;
  for (int i = 0; i < kDraws; ++i) {
    const double value = random.normal();
    ASSERT_TRUE(std::isfinite(value));
    for (std::size_t power = 1; power < 5; ++power) {
      moments[power] += std::pow(value, static_cast<double>(power)) / kDraws;
    }
  }
  EXPECT_NEAR(moments[1], 0, 0.01);
  EXPECT_NEAR(moments[2], 1, 0.02);
  EXPECT_NEAR(moments[3], 0, 0.05);
  EXPECT_NEAR(moments[4], 3, 0.15);
}

TEST(Random, BelowCoversEveryValueEvenly) {
  Random random(3);
  std::array<int, 7> counts{};
  for (int i = 0; i < 70000; ++i) ++counts.at(static_cast<std::size_t>(random.below(7)));
  for (const int count : counts) EXPECT_NEAR(count, 10000, 500);
}

// The remainder of a plain 64-bit draw by 3 * 2^61 falls into the lowest third with probability
// 3/8.
TEST(Random, BelowIsUnbiasedForHugeRanges) {
  Random random(4);
  constexpr std::int64_t kRange = std::int64_t{3} << 61;
  int low = 0;
  constexpr int kDraws = 30000;
  for (int i = 0; i < kDraws; ++i) {
    const std::int64_t value = random.below(kRange);
    ASSERT_GE(value, 0);
    ASSERT_LT(value, kRange);
    low += value < (std::int64_t{1} << 61);
  }
  EXPECT_NEAR(static_cast<double>(low) / kDraws, 1.0 / 3.0, 0.01);
}

TEST(Random, BelowOneIsZeroAndBelowZeroIsRefused) {
  Random random(5);
  EXPECT_EQ(random.below(1), 0);
  EXPECT_THROW(random.below(0), Error);
  EXPECT_THROW(random.below(-3), Error);
}

TEST(Permutation, HoldsEveryNumberOnce) {
  for (const std::int64_t n : {0, 1, 2, 1000}) {
    std::vector<std::int64_t> order = permutation(n, Random(9));
    ASSERT_EQ(static_cast<std::int64_t>(order.size()), n);
    std::sort(order.begin(), order.end());
    for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  }
}

TEST(Permutation, IsUniform) {
  std::array<int, 6> counts{};
  for (std::uint64_t i = 0; i < 6000; ++i) {
    const auto order = permutation(3, RandomStreams(i).stream("order"));
    ++counts.at(static_cast<std::size_t>(order[0] * 2 + (order[1] > order[2])));
  }
  for (const int count : counts) EXPECT_NEAR(count, 1000, 130);
}

}  // namespace
}  // namespace attnlab::random_test
