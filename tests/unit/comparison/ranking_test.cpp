// Ranks of attentions across made-up experiments, and which settings are one experiment.
#include "framework/comparison/ranking.h"

#include <cmath>
#include <string>

#include "tests/unit/comparison/made_comparison.h"

namespace attnlab::ranking_test {
namespace {

using namespace testing;

TEST_F(ComparisonTest, RanksAcrossExperiments) {
  write_pair("a", {0.5, 0.6}, {0.7, 0.8});
  write_pair("b", {0.5, 0.6}, {0.7, 0.8});
  write_pair("c", {0.5, 0.6}, {0.4, 0.3});
  write_run("d", "standard", 0, done(0.5));
  const Comparison comparison = compare();
  ASSERT_TRUE(comparison.ranking.has_value());
  EXPECT_THAT(comparison.ranking->experiments, ElementsAre("a", "b", "c"));
  EXPECT_THAT(comparison.ranking->attentions, ElementsAre("standard", "quest"));
  EXPECT_NEAR(comparison.ranking->test.mean_ranks[1], 4.0 / 3, 1e-12) << "more accuracy is better";
  EXPECT_NEAR(comparison.ranking->critical_difference, 1.959964 * std::sqrt(2 * 3 / 18.0), 1e-5);
  EXPECT_THAT(comparison.left_out, ElementsAre(mentions("d:", "no seed")));
  EXPECT_THAT(comparison_text(comparison, TableStyle::text),
              mentions("1.33  quest", "critical difference 1.13", "No difference", "significant"));
}

TEST_F(ComparisonTest, RanksMeansOverSeedsThatAllHave) {
  write_pair("a", {0.5, 0.6, 0.0}, {0.4, 0.5});
  write_pair("b", {0.5, 0.6}, {0.4, 0.5});
  EXPECT_THAT(compare().ranking->test.mean_ranks, ElementsAre(1, 2))
      << "standard's third seed has no counterpart and must not count";
}

TEST_F(ComparisonTest, RanksNothingOfOneExperiment) {
  write_pair("a", {0.5, 0.6}, {0.4, 0.5});
  EXPECT_FALSE(compare().ranking.has_value());
  EXPECT_THAT(compare().no_ranking, HasSubstr("there are 2 and 1"));
}

TEST_F(ComparisonTest, RanksPointsOfASweepOnTheSameDataAsOneExperiment) {
  for (const char* point : {"\"a,lr=0.1\"", "\"a,lr=0.2\""}) {
    write_pair(point, {0.5, 0.6}, {0.7, 0.8});
  }
  Comparison comparison = compare();
  EXPECT_FALSE(comparison.ranking.has_value());
  EXPECT_THAT(comparison.no_ranking, AllOf(HasSubstr("there are 2 and 1"), HasSubstr("settings")));
  EXPECT_THAT(test_sentence(comparison),
              mentions("2 comparisons", "1 attention", "2 settings", "1 experiment"));
  write_pair("b", {0.5, 0.6}, {0.4, 0.3});
  comparison = compare();
  ASSERT_TRUE(comparison.ranking.has_value());
  EXPECT_THAT(comparison.ranking->experiments, ElementsAre("a", "b"));
  EXPECT_THAT(comparison.ranking->test.mean_ranks, ElementsAre(1.5, 1.5)) << "a counts once";
}

TEST_F(ComparisonTest, RanksPointsOfASweepOverDataApart) {
  for (const std::string data : {"cora", "citeseer"}) {
    write_on_data("\"a,dataset=" + data + "\"", 0, data);
  }
  ASSERT_TRUE(compare().ranking.has_value());
  EXPECT_THAT(compare().ranking->experiments, ElementsAre("a,dataset=citeseer", "a,dataset=cora"))
      << "each data set is an experiment";
}

TEST_F(ComparisonTest, CallsNoPointsOnOtherDataAfterAnExperiment) {
  write_on_data("a", 0, "d1");
  write_on_data("\"a,lr=0.1\"", 0, "d2");
  write_on_data("\"a,lr=0.2\"", 0, "d2");
  const Comparison comparison = compare();
  EXPECT_THAT(comparison.settings,
              ElementsAre(::testing::Pair("a", "a"), ::testing::Pair("a,lr=0.1", "a,lr=0.1"),
                          ::testing::Pair("a,lr=0.2", "a,lr=0.1")));
  ASSERT_TRUE(comparison.ranking.has_value());
  EXPECT_THAT(comparison.ranking->experiments, ElementsAre("a", "a,lr=0.1"));
}

TEST_F(ComparisonTest, KnowsThePointsDataByASeedThatTheyShare) {
  for (const char* attention : {"standard", "quest"}) {  // not begun: nothing recorded its data
    frozen_run("\"a,lr=0.1\"", attention, 0);
  }
  write_on_data("\"a,lr=0.1\"", 1, "d1");
  write_on_data("\"a,lr=0.2\"", 0, "d0");
  write_on_data("\"a,lr=0.2\"", 1, "d1");
  write_on_data("\"a,lr=0.3\"", 1, "d1");
  write_on_data("\"a,lr=0.3\"", 2, "d2");
  EXPECT_THAT(compare().settings,
              ElementsAre(::testing::Pair("a,lr=0.1", "a"), ::testing::Pair("a,lr=0.2", "a"),
                          ::testing::Pair("a,lr=0.3", "a")));
}

}  // namespace
}  // namespace attnlab::ranking_test
