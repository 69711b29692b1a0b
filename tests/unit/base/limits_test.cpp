// What limits a process is found out, and said.
#include "framework/base/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <new>

#include "framework/base/error_text.h"
#include "tests/support/message_of.h"

namespace attnlab::limits_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Sets a limit for this process while it lives.
class Limited {
 public:
  Limited(__rlimit_resource resource, rlim_t most) : resource_(resource) {
    ::getrlimit(resource, &before_);
    const rlimit now{most, before_.rlim_max};
    EXPECT_EQ(::setrlimit(resource, &now), 0);
  }
  ~Limited() { ::setrlimit(resource_, &before_); }
  Limited(const Limited&) = delete;
  Limited& operator=(const Limited&) = delete;

 private:
  __rlimit_resource resource_;
  rlimit before_{};
};

TEST(Limits, DecideWhetherMemoryCanBeMapped) {
  constexpr std::int64_t kSome = 1 << 20, kMoreThanThereIs = std::int64_t{1} << 50;
  EXPECT_TRUE(can_map(kSome));
  EXPECT_FALSE(can_map(kMoreThanThereIs));
  bool fits = true;
  {
    const Limited space(RLIMIT_AS, 1);  // nothing that takes memory stands in here
    fits = can_map(kSome);
  }
  EXPECT_FALSE(fits);
}

TEST(Limits, AreSaidWithTheirRemedy) {
  const Limited space(RLIMIT_AS, rlim_t{1} << 45), data(RLIMIT_DATA, rlim_t{1} << 44);
  EXPECT_TRUE(mapping_is_limited());
  EXPECT_THAT(memory_limits(), AllOf(HasSubstr("address space 3.355e+07 MiB (ulimit -v)"),
                                     HasSubstr("data 1.678e+07 MiB (ulimit -d)")));
  EXPECT_THAT(text_of(std::bad_alloc()), AllOf(HasSubstr("out of memory"),
                                               HasSubstr("limits here: "), HasSubstr("ulimit -v")));
}

TEST(Limits, OfThreadsAreThoseOfProcessesAndStacks) {
  const Limited processes(RLIMIT_NPROC, 12345), space(RLIMIT_AS, rlim_t{1} << 45),
      stack(RLIMIT_STACK, 4 << 20);
  EXPECT_THAT(thread_limits(),
              mentions("12345", "(ulimit -u)", "ulimit -v", "a stack 4 MiB (ulimit -s)"));
}

TEST(Limits, AreNotSpokenOfWhereThereAreNone) { EXPECT_EQ(limits_here(""), ""); }

}  // namespace
}  // namespace attnlab::limits_test
