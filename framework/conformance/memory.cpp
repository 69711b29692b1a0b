#include "framework/conformance/memory.h"

#include <fmt/format.h>
#include <malloc.h>

#include <cstdlib>

#include "framework/conformance/judge.h"

namespace attnlab::conformance {
namespace {

constexpr int kCalls = 16;         // of one measurement
constexpr int kMeasurements = 32;  // a leak shows in all; caches of the C library fill within some
constexpr std::int64_t kSmallest = 24;                  // bytes that the smallest allocation takes
constexpr std::int64_t kProbe = std::int64_t{1} << 20;  // bytes that a count must not miss

}  // namespace

std::int64_t bytes_in_use() {
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 33)
  const struct mallinfo2 now = ::mallinfo2();
  return static_cast<std::int64_t>(now.uordblks + now.hblkhd);
#endif
#endif
  return 0;
}

bool counts_memory(const std::function<std::int64_t()>& in_use) {
  const std::int64_t before = in_use();
  // (Volatile: else the compiler may leave it out.)
  void* volatile block = std::malloc(static_cast<std::size_t>(kProbe));
  const std::int64_t more = in_use() - before;
  std::free(block);
  return more >= kProbe / 2;  // other threads may give some back meanwhile
}

void expect_no_leak(const std::string& what, const std::function<void()>& call,
                    const std::function<std::int64_t()>& in_use) {
  if (!counts_memory(in_use)) {
    throw Skipped(
        "the C library does not count what it hands out (glibc does from 2.33 on, where neither a "
        "sanitizer nor another allocator stands in for it)");
  }
  for (int i = 0; i < kCalls; ++i) call();
  std::int64_t kept = 0;
  for (int m = 0; m < kMeasurements; ++m) {
    const std::int64_t before = in_use();
    for (int i = 0; i < kCalls; ++i) call();
    kept = in_use() - before;
    if (kept < kCalls * kSmallest) return;
  }
  throw Failure(fmt::format("{} keeps {} bytes of memory each time", what, kept / kCalls));
}

}  // namespace attnlab::conformance
