#include "framework/base/side_by_side.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace attnlab::side_by_side_test {
namespace {

TEST(SideBySideTest, DoesEachPieceOnce) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}}) {
    for (const std::size_t worth : {std::size_t{0}, std::size_t{1}, std::size_t{5000}}) {
      std::vector<int> done(count);
      side_by_side(count, worth, [&](std::size_t i) { ++done.at(i); });
      EXPECT_EQ(done, std::vector<int>(count, 1));
    }
  }
}

TEST(SideBySideTest, ThrowsWhatAPieceThrows) {
  for (const std::size_t worth : {std::size_t{1}, std::size_t{5000}}) {
    std::atomic<int> begun = 0;
    EXPECT_THROW(side_by_side(1'000'000, worth,
                              [&](std::size_t i) {
                                ++begun;
                                if (i == 10) throw std::runtime_error("ten");
                              }),
                 std::runtime_error);
    EXPECT_LT(begun, 1'000'000) << "the rest is left out";
  }
}

}  // namespace
}  // namespace attnlab::side_by_side_test
