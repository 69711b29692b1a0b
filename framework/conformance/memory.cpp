#include "framework/conformance/memory.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "framework/conformance/judge.h"

namespace attnlab::conformance {
namespace {

// Calls after which memory is looked at. What grows by doubling (a vector that begins empty) is
// still for long, but not while calls become four times as many; a cache is full before the last.
constexpr int kLooks[] = {8, 32, 128, 512};
constexpr int kLast = 4;  // calls of a look: the least in use counts
// Bytes a call that are a leak: fewer the C library itself keeps now and then.
constexpr std::int64_t kSmallest = 24;
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
  std::int64_t before = 0, kept = 0;
  int calls = 0;
  for (const int look : kLooks) {
    const int span = look - calls;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (; calls < look; ++calls) {
      call();
      if (look - calls <= kLast) least = std::min(least, in_use());
    }
    kept = (least - before) / span;
    if (look != kLooks[0] && kept < kSmallest) return;
    before = least;
  }
  throw Failure(fmt::format("{} keeps {} bytes of memory each time", what, kept));
}

}  // namespace attnlab::conformance
