// Threads that cannot start are an error, not the end of the process.
#include "framework/base/threads.h"

#include <atomic>

#include "tests/support/compositions.h"
#include "tests/support/few_threads.h"

namespace attnlab::threads_test {
namespace {

using namespace testing;

TEST(Threads, DoTheirWorkAndAreJoined) {
  std::atomic<int> done{0};
  {
    const std::jthread first = start_thread([&] { ++done; });
    const std::jthread second = start_thread([&] { ++done; });
  }
  EXPECT_EQ(done, 2);
}

TEST(Threads, SayWhatToDoWhereTheyCannotStart) {
  const FewThreads none(0);
  const std::string message = message_of<ThreadError>([] { start_thread([] {}); });
  EXPECT_THAT(message, HasSubstr("cannot start a thread: "));
  EXPECT_THAT(message, mentions("--jobs", "train.workers"));
}

TEST(Threads, AreTriedAllAtOnce) {
  EXPECT_NO_THROW(check_threads(3));
  const FewThreads two(2);
  EXPECT_THROW(check_threads(3), ThreadError);
}

}  // namespace
}  // namespace attnlab::threads_test
