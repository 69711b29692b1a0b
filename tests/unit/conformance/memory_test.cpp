// Where memory is not counted, no leak can be seen, and that is said.
#include "framework/conformance/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "framework/conformance/judge.h"
#include "tests/support/data_files.h"

namespace attnlab::conformance::memory_test {
namespace {

using attnlab::testing::mentions;

TEST(ConformanceMemory, IsCountedByTheCLibraryAlone) {
#if defined(__SANITIZE_ADDRESS__)
  EXPECT_FALSE(counts_memory());
#else
  EXPECT_TRUE(counts_memory());
#endif
}

TEST(ConformanceMemory, IsNoLeakToPassWhereNobodyCounts) {
  int calls = 0;
  const auto check = [&] {
    expect_no_leak(
        "a call", [&] { ++calls; }, [] { return std::int64_t{0}; });
  };
  EXPECT_THAT(attnlab::testing::message_of<Skipped>(check), mentions("C library", "count"));
  EXPECT_EQ(calls, 0);
}

TEST(ConformanceMemory, IsNoLeakOfACacheThatFills) {
  if (!counts_memory()) GTEST_SKIP() << "the C library does not count memory here";
  std::vector<std::unique_ptr<char[]>> cache;
  expect_no_leak("a call", [&] {
    if (cache.size() < 100) cache.push_back(std::make_unique<char[]>(5000));
  });
  EXPECT_EQ(cache.size(), 100U);
}

TEST(ConformanceMemory, IsALeakOfAVectorThatGrows) {
  if (!counts_memory()) GTEST_SKIP() << "the C library does not count memory here";
  std::vector<std::array<double, 64>> history;  // more than what glibc keeps for a thread
  const auto check = [&] { expect_no_leak("a call", [&] { history.emplace_back(); }); };
  EXPECT_THAT(attnlab::testing::message_of<Failure>(check), ::testing::HasSubstr("a call keeps "));
}

}  // namespace
}  // namespace attnlab::conformance::memory_test
