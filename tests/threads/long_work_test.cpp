// Work on all cores: what is told of it, and which error comes out.
#include "framework/data/long_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <regex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/data_files.h"

namespace attnlab::long_work_test {
namespace {

using testing::message_of;

class LongWork : public ::testing::Test {
 protected:
  LongWork() {
    on_long_work([this](const std::string& text) {
      told_.push_back(text);
      done_when_told_.push_back(done_);
    });
  }
  ~LongWork() override { on_long_work({}); }

  std::vector<std::string> told_;
  std::vector<int> done_when_told_;
  std::atomic<int> done_{0};
};

TEST_F(LongWork, IsDoneOnceForEachIndex) {
  std::vector<std::atomic<int>> counts(1000);
  in_parallel("counting", 1000, [&](std::int64_t i) { ++counts[static_cast<std::size_t>(i)]; });
  for (const std::atomic<int>& count : counts) EXPECT_EQ(count, 1);
  in_parallel("nothing", 0, [&](std::int64_t) { ++done_; });
  EXPECT_EQ(done_, 0);
  EXPECT_TRUE(told_.empty()) << "of short work";
}

TEST_F(LongWork, IsToldOfInPercentFromTheThirdSecondOn) {
  const auto begin = std::chrono::steady_clock::now();
  // Pieces end at 0.75, 1.5, 2.25 and 3 seconds on however many cores.
  in_parallel("waiting for 4 pieces", 4, [&](std::int64_t i) {
    std::this_thread::sleep_until(begin + (i + 1) * std::chrono::milliseconds(750));
    ++done_;
  });
  ASSERT_GE(told_.size(), 2u);
  std::smatch parts;
  const std::regex line("waiting for 4 pieces: (\\d+) %, (.+) left");
  ASSERT_TRUE(std::regex_match(told_[0], parts, line)) << told_[0];
  EXPECT_GT(std::stoi(parts[1]), 0);
  EXPECT_LE(std::stoi(parts[1]), 25 * done_when_told_[0]);
  EXPECT_LT(done_when_told_[0], 4);
  EXPECT_EQ(told_.back().rfind("waiting for 4 pieces: done in ", 0), 0u) << told_.back();
  EXPECT_EQ(done_when_told_.back(), 4);
}

TEST_F(LongWork, ThrowsOfTheLowestIndexThatFails) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> before{0};
    const auto work = [&](std::int64_t i) {
      if (i < 37) ++before;
      if (i == 37 || i == 38 || i == 150 || i == 199) {
        throw std::runtime_error("piece " + std::to_string(i));
      }
    };
    EXPECT_EQ(message_of<std::runtime_error>([&] { in_parallel("failing", 200, work); }),
              "piece 37");
    EXPECT_EQ(before, 37) << "what comes before it is done";
  }
}

}  // namespace
}  // namespace attnlab::long_work_test
