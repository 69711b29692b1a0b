// Where memory is not counted, no leak can be seen, and that is said.
#include "framework/conformance/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/conformance/judge.h"
#include "tests/support/data_files.h"

namespace attnlab::conformance::memory_test {
namespace {

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
  EXPECT_THAT(attnlab::testing::message_of<Skipped>(check),
              ::testing::HasSubstr("the C library does not count what it hands out"));
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace attnlab::conformance::memory_test
