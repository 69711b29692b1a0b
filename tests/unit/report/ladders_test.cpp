// Metrics over a number that stands in their names.
#include "framework/report/ladders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attnlab::ladders_test {
namespace {

PooledCell cell(const std::string& attention, const std::map<std::string, double>& metrics,
                std::size_t slice = 0) {
  PooledCell out;
  out.slice = slice;
  out.attention = attention;
  for (const auto& [name, value] : metrics) out.metrics[name] = summary_of({value, value + 2});
  return out;
}

std::vector<double> places(const Ladder& ladder) {
  std::vector<double> at;
  for (const Ladder::Rung& rung : ladder.rungs) at.push_back(rung.at);
  return at;
}

TEST(Ladders, RiseByTheNumberInTheName) {
  const std::vector<Ladder> found = ladders_of({cell(
      "quest", {{"swap/0.05/nll", 3}, {"swap/0.015/nll", 1}, {"swap/0.5/nll", 5}, {"nll", 0}})});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].over, "swap");
  EXPECT_EQ(found[0].metric, "nll");
  EXPECT_EQ(places(found[0]), (std::vector<double>{0.015, 0.05, 0.5}));
  EXPECT_DOUBLE_EQ(found[0].rungs[0].value.mean, 2);
  EXPECT_EQ(found[0].rungs[0].value.count, 2);
  EXPECT_EQ(found[0].rungs[0].name, "swap/0.015/nll");
}

TEST(Ladders, AreOneOfEachMetricAttentionAndSlice) {
  const std::map<std::string, double> metrics = {{"by/context/1/nll", 1},
                                                 {"by/context/2/nll", 1},
                                                 {"by/context/1/perplexity", 1},
                                                 {"by/context/2/perplexity", 1}};
  const std::vector<Ladder> found =
      ladders_of({cell("standard", metrics), cell("quest", metrics), cell("quest", metrics, 1)});
  ASSERT_EQ(found.size(), 6U);
  for (const Ladder& ladder : found) EXPECT_EQ(ladder.over, "by/context");
  EXPECT_EQ(found[0].metric, "nll");
  EXPECT_EQ(found[2].metric, "perplexity");
  EXPECT_EQ(found[5].slice, 1U);
}

TEST(Ladders, NeedTwoNumbersAndWordsOnBothSides) {
  EXPECT_TRUE(ladders_of({cell("quest", {{"swap/0.015/nll", 1},
                                         {"swap/high/nll", 1},
                                         {"0.5/nll", 1},
                                         {"0.6/nll", 1},
                                         {"top/5", 1},
                                         {"top/6", 1},
                                         {"a/nan/b", 1},
                                         {"a/inf/b", 1}})})
                  .empty());
}

}  // namespace
}  // namespace attnlab::ladders_test
