#include "framework/conformance/memory.h"

#include <fmt/format.h>
#include <malloc.h>

#include <cstdint>

#include "framework/conformance/judge.h"

namespace attnlab::conformance {
namespace {

constexpr int kCalls = 16;         // of one measurement
constexpr int kMeasurements = 32;  // a leak shows in all; caches of the C library fill within some
constexpr std::int64_t kSmallest = 24;  // bytes that the smallest allocation takes

/// Bytes in use; 0 where the C library does not say (or a sanitizer stands in for it).
std::int64_t bytes_in_use() {
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 33)
  const struct mallinfo2 now = ::mallinfo2();
  return static_cast<std::int64_t>(now.uordblks + now.hblkhd);
#endif
#endif
  return 0;
}

}  // namespace

void expect_no_leak(const std::string& what, const std::function<void()>& call) {
  for (int i = 0; i < kCalls; ++i) call();
  std::int64_t kept = 0;
  for (int m = 0; m < kMeasurements; ++m) {
    const std::int64_t before = bytes_in_use();
    for (int i = 0; i < kCalls; ++i) call();
    kept = bytes_in_use() - before;
    if (kept < kCalls * kSmallest) return;
  }
  throw Failure(fmt::format("{} keeps {} bytes of memory each time", what, kept / kCalls));
}

}  // namespace attnlab::conformance
