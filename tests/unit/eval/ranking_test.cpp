// Ranking metrics against cases by hand, ties included.
#include "framework/eval/ranking.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace attnlab::ranking_test {
namespace {

TEST(Ranking, AreaUnderTheCurveIsTheShareOfPairsInOrder) {
  // Positives at 0.9 and 0.4, negatives at 0.8, 0.4 and 0.1: pairs 3 + (0 + 1/2 + 1) of 6.
  const std::vector<Scored> some = {
      {0.4, true}, {0.8, false}, {0.1, false}, {0.9, true}, {0.4, false}};
  EXPECT_DOUBLE_EQ(roc_auc(some).value(), 4.5 / 6);
  EXPECT_DOUBLE_EQ(roc_auc({{2, true}, {2, false}, {2, false}}).value(), 0.5);
  EXPECT_DOUBLE_EQ(roc_auc({{1, true}, {2, false}}).value(), 0);
}

TEST(Ranking, AveragePrecisionSumsPrecisionWhereRecallRises) {
  // In order 1 0 1 0 0: precision 1 at the first positive, 2/3 at the second.
  const std::vector<Scored> plain = {
      {0.9, true}, {0.8, false}, {0.7, true}, {0.6, false}, {0.5, false}};
  EXPECT_DOUBLE_EQ(average_precision(plain).value(), (1 + 2.0 / 3) / 2);
  // Equal scores are one threshold: (1 of 1), then 2 positives of 4 at once, 3 of 5 in all.
  const std::vector<Scored> ties = {{3, true}, {2, true},  {2, false},
                                    {2, true}, {2, false}, {1, false}};
  EXPECT_DOUBLE_EQ(average_precision(ties).value(), 1.0 / 3 + (2.0 / 3) * (3.0 / 5));
  // scikit-learn's own example: labels 0 0 1 1, scores 0.1 0.4 0.35 0.8.
  const std::vector<Scored> known = {{0.1, false}, {0.4, false}, {0.35, true}, {0.8, true}};
  EXPECT_NEAR(average_precision(known).value(), 0.83, 0.005);
  EXPECT_DOUBLE_EQ(roc_auc(known).value(), 0.75);
}

TEST(Ranking, OneAnswerAloneHasNone) {
  EXPECT_FALSE(roc_auc({{1, true}, {2, true}}).has_value());
  EXPECT_FALSE(average_precision({{1, false}}).has_value());
  EXPECT_FALSE(roc_auc({}).has_value());
}

TEST(Ranking, WhatIsNoNumberRanksLast) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_DOUBLE_EQ(roc_auc({{nan, true}, {-1e300, false}}).value(), 0);
  EXPECT_DOUBLE_EQ(rank_among(nan, {1, 2}), 3);
}

TEST(Ranking, RanksCountTiesByHalves) {
  EXPECT_DOUBLE_EQ(rank_among(2, {3, 1, 0}), 2);
  EXPECT_DOUBLE_EQ(rank_among(2, {2, 2, 3}), 3);
  EXPECT_DOUBLE_EQ(rank_among(2, {}), 1);
}

}  // namespace
}  // namespace attnlab::ranking_test
