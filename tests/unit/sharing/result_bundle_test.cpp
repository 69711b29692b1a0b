// Results side by side: when they count as the same.
#include "framework/sharing/result_bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace attnlab::testing {
namespace {

using sharing::compare_results;
using ::testing::HasSubstr;

RunRecord run_of(std::int64_t seed, double accuracy) {
  RunRecord run;
  run.experiment = "small";
  run.attention = "quest";
  run.seed = seed;
  run.infos = {{"accuracy", Better::higher, "share"}};
  run.status.state = RunState::done;
  run.status.metrics = {{"accuracy", accuracy}};
  return run;
}

std::vector<RunRecord> runs_of(const std::vector<double>& values) {
  std::vector<RunRecord> runs;
  for (const double value : values) {
    runs.push_back(run_of(static_cast<std::int64_t>(runs.size()), value));
  }
  return runs;
}

std::string verdict(const std::vector<double>& there, const std::vector<double>& here) {
  const auto all = compare_results(runs_of(there), runs_of(here));
  return all.size() == 1 ? all[0].verdict : "no one row";
}

TEST(Reproduction, IsIdenticalWhereEverySeedIs) {
  EXPECT_EQ(verdict({0.5, 0.6}, {0.5, 0.6}), "identical");
  EXPECT_EQ(verdict({0.5}, {0.5}), "identical");
}

TEST(Reproduction, AgreesWithinTheSeedsSpread) {
  EXPECT_EQ(verdict({0.50, 0.60, 0.55}, {0.52, 0.58, 0.56}), "agrees");
  EXPECT_EQ(verdict({0.50, 0.51, 0.52}, {0.60, 0.61, 0.62}), "DIFFERS");
}

TEST(Reproduction, OfOneSeedNeedsAnEqualNumber) {
  EXPECT_EQ(verdict({0.5}, {0.5 + 1e-8}), "agrees");
  EXPECT_EQ(verdict({0.5}, {0.51}), "DIFFERS");
}

TEST(Reproduction, SaysWhereThereIsNoValue) {
  EXPECT_EQ(verdict({0.5}, {}), "no value");
  EXPECT_EQ(verdict({0.5}, {std::nan("")}), "no value");
}

TEST(Reproduction, ComparesSeedsThatBothHave) {
  const auto all = compare_results(runs_of({0.5, 0.6, 0.7}), runs_of({0.5, 0.6}));
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].there.size(), 2U);
  EXPECT_THAT(reproduction_text(all), HasSubstr("identical"));
}

}  // namespace
}  // namespace attnlab::testing
