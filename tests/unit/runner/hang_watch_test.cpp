// What counts as hanging, and that it is ended.
#include "runner/hang_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <vector>

#include "runner/arguments.h"

namespace attnlab::hang_watch_test {
namespace {

using Times = HangClock::Times;

/// A process that does the same for three seconds.
Times times_after(const Activity& each_second) {
  HangClock clock;
  Activity now;
  Times times = clock.look(now, 1);
  for (int i = 0; i < 3; ++i) {
    now.processor += each_second.processor;
    now.in_kernel += each_second.in_kernel;
    now.page_faults += each_second.page_faults;
    now.waits += each_second.waits;
    times = clock.look(now, 1);
  }
  return times;
}

TEST(HangClock, CountsWhileAProcessComputesWithoutNewMemory) {
  EXPECT_EQ(times_after({1.0, 0.6, 0, 0}).computing, 3);
  EXPECT_EQ(times_after({1.0, 0.0, 20, 2}).computing, 3) << "looking takes a little itself";
  EXPECT_EQ(times_after({1.0, 0.6, 500, 0}).computing, 0) << "it touches new memory";
  EXPECT_EQ(times_after({1.0, 0.6, 0, 50}).computing, 0) << "it waits for a disk now and then";
  EXPECT_EQ(times_after({0.1, 0.05, 0, 0}).computing, 0) << "it waits for the processor";
}

TEST(HangClock, CountsWhileAProcessWaitsForTheSame) {
  EXPECT_EQ(times_after({0, 0, 0, 1}).waiting, 3);
  EXPECT_EQ(times_after({0, 0, 1, 1}).waiting, 0) << "a page came from a slow disk";
  EXPECT_EQ(times_after({1.0, 0, 0, 1}).waiting, 0) << "it computes";
}

TEST(HangClock, CountsWhileAProcessGetsNothingFromTheKernel) {
  EXPECT_EQ(times_after({1.0, 0.6, 0, 0}).in_kernel, 3);
  EXPECT_EQ(times_after({1.0, 0.01, 0, 0}).in_kernel, 0) << "it computes";
  EXPECT_EQ(times_after({1.0, 0.6, 500, 0}).in_kernel, 0) << "it gets memory";
}

TEST(HangClock, BeginsAnewWhenWhoLooksWasHeldToo) {
  HangClock clock;
  Activity now;
  for (const double seconds : {1.0, 1.0, 1.0, 100.0, 1.0}) {
    now.processor += seconds;
    EXPECT_LE(clock.look(now, seconds).computing, 2);
  }
}

TEST(Activity, IsCountedByTheKernel) {
  const Activity before = activity_so_far();
  constexpr std::size_t kPages = 1000, kBytes = kPages * 4096;
  auto* memory = static_cast<volatile char*>(
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  for (std::size_t i = 0; i < kBytes; i += 4096) memory[i] = 'x';
  const Activity after = activity_so_far();
  ::munmap(const_cast<char*>(memory), kBytes);
  EXPECT_GT(after.page_faults, before.page_faults);
  EXPECT_GE(after.processor, before.processor);
  EXPECT_GE(after.processor, after.in_kernel);
}

/// Takes time, and nothing else, for ever.
[[noreturn]] void hang_when_starting() {
  const StartWatch watch(2, "; too little of it");
  for (std::atomic<int> i{0};;) ++i;
}

/// Asks for memory that there is not, for ever.
[[noreturn]] void hang_when_working(bool really) {
  std::atomic<bool> asked{false};
  const WorkWatch watch(2, [&]() -> std::optional<std::string> {
    if (!really && !asked.exchange(true)) return std::nullopt;
    return asked ? "; too little of it, asked twice" : "; too little of it";
  });
  for (constexpr std::size_t kTooMuch = std::size_t{1} << 50;;) {
    ::mmap(nullptr, kTooMuch, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
}

TEST(HangWatchDeathTest, EndsAStartThatHangs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(hang_when_starting(), ::testing::ExitedWithCode(kNoRoom),
              "attnlab: the start of LibTorch .*; too little of it");
}

TEST(HangWatchDeathTest, EndsACallThatHangs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(hang_when_working(true), ::testing::ExitedWithCode(kNoRoom),
              "attnlab: a call of LibTorch .*; too little of it\n");
}

TEST(HangWatchDeathTest, GoesOnLookingWhereItWasMistaken) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(hang_when_working(false), ::testing::ExitedWithCode(kNoRoom), "asked twice");
}

TEST(StartWatch, LeavesSignalsAsTheyWere) {
  { const StartWatch watch(2, ""); }
  struct sigaction action {};
  ::sigaction(SIGALRM, nullptr, &action);
  EXPECT_EQ(action.sa_handler, SIG_DFL);
}

}  // namespace
}  // namespace attnlab::hang_watch_test
