// Seeds that are added until intervals are narrow: where one looks, what is the widest, and that
// the correction for looking is needed and enough.
#include "framework/comparison/until_width.h"

#include <cmath>

#include "framework/base/random.h"
#include "tests/support/run_folders.h"

namespace attnlab::until_width_test {
namespace {

using namespace testing;

TEST(LooksUntil, GrowByAQuarterUpToTheMost) {
  EXPECT_EQ(looks_until(3, 20), (std::vector<std::int64_t>{3, 4, 5, 6, 7, 8, 10, 12, 15, 18, 20}));
  EXPECT_EQ(looks_until(2, 4), (std::vector<std::int64_t>{2, 3, 4}));
  EXPECT_EQ(looks_until(5, 5), (std::vector<std::int64_t>{5}));
}

/// Of 2000 sequences of differences with mean 0 and deviation 1, the share whose interval misses 0
/// where it is first at most 1 wide, or at the last look. @param level  of each look
double share_of_misses(const std::vector<std::int64_t>& looks, double level) {
  constexpr int kSequences = 2000;
  Random random(7);
  int misses = 0;
  for (int n = 0; n < kSequences; ++n) {
    std::vector<double> differences;
    std::optional<Interval> interval;
    for (const std::int64_t look : looks) {
      while (static_cast<std::int64_t>(differences.size()) < look) {
        differences.push_back(random.normal());
      }
      interval = confidence_interval(summary_of(differences), 1 - level);
      if (interval->high - interval->low <= 1) break;
    }
    misses += interval->low > 0 || interval->high < 0;
  }
  return static_cast<double>(misses) / kSequences;
}

TEST(LooksUntil, MissTooOftenAtTheLevelOfOneLookAndNotAtTheirShareOfIt) {
  const std::vector<std::int64_t> looks = looks_until(3, 30);
  EXPECT_GT(share_of_misses(looks, 0.05), 0.08);
  const double corrected = share_of_misses(looks, 0.05 / static_cast<double>(looks.size()));
  EXPECT_LE(corrected, 0.05);
  EXPECT_GT(corrected, 0) << "some intervals miss";
}

class WidestIntervalTest : public WithRunFolders {
 protected:
  void write_values(const std::string& experiment, const std::string& attention,
                    const std::vector<double>& accuracies) const {
    for (std::size_t i = 0; i < accuracies.size(); ++i) {
      RunStatus status = ended(RunState::done);
      status.metrics = {{"accuracy", accuracies[i]}};
      write_run(experiment, attention, static_cast<std::int64_t>(i), status);
    }
  }
  std::optional<WidestInterval> widest(double level) const {
    CompareOptions options;
    options.test = "t";
    options.level = level;
    return widest_interval(compare_runs(find_runs({root()}), options, "standard"));
  }
};

// Differences of 0, 1 and 2 points: Student's quantile of two degrees of freedom for 0.95 is
// 4.302652729911275, for 0.99 9.924843200918294; the interval is 2 t / sqrt(3) points wide.
TEST_F(WidestIntervalTest, IsThatOfStudentInTheUnitOfTheTable) {
  write_values("small", "standard", {0.50, 0.60, 0.70});
  write_values("small", "quest", {0.50, 0.61, 0.72});
  write_values("other", "standard", {0.50, 0.60, 0.70});
  write_values("other", "quest", {0.500, 0.601, 0.702});
  const auto found = widest(0.05);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->experiment, "small");
  EXPECT_EQ(found->attention, "quest");
  EXPECT_EQ(found->unit, "points");
  EXPECT_NEAR(found->width, 2 * 4.302652729911275 / std::sqrt(3), 1e-6);
  EXPECT_NEAR(widest(0.01)->width, 2 * 9.924843200918294 / std::sqrt(3), 1e-6);
}

TEST_F(WidestIntervalTest, HasNoEndWithoutASpreadAndIsNoneWithoutPairs) {
  write_values("small", "standard", {0.5});
  write_run("small", "quest", 0, ended(RunState::diverged));
  EXPECT_FALSE(widest(0.05).has_value());
  write_values("equal", "standard", {0.5, 0.7});
  write_values("equal", "quest", {0.5, 0.7});
  ASSERT_TRUE(widest(0.05).has_value());
  EXPECT_TRUE(std::isinf(widest(0.05)->width)) << "equal differences";
  write_values("a pair", "standard", {0.5});
  write_values("a pair", "quest", {0.6});
  EXPECT_EQ(widest(0.05)->experiment, "a pair");
  EXPECT_TRUE(std::isinf(widest(0.05)->width));
}

}  // namespace
}  // namespace attnlab::until_width_test
