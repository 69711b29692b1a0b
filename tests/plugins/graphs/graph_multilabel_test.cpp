// Several labels for each graph: losses and metrics against cases by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plugins/graphs/graph_answers.h"
#include "tests/support/plugins.h"

namespace attnlab::graph_multilabel_test {
namespace {

using graph_answers::Answered;
using graph_answers::cross_entropy;
using graph_answers::data_with;
using graph_answers::kUnknown;
using graph_answers::measured;
using graph_answers::others;
using graph_answers::table;

TEST(GraphMultilabel, AveragesTargetsAndLeavesMissingLabelsOut) {
  const auto task = testing::make_task("graph_multilabel", data_with({{"labels", {3}}}));
  // Target 0: order 1 0 1. Target 1: order 0 1, one unknown. Target 2: all alike, left out.
  const Answered first = table({3, 0.2, 9, 2, 0.1, 8}, {1, 0, 1, 0, 1, 1}, 3);
  const Answered second = table({1, 5, 7}, {1, kUnknown, 1}, 3);
  const Metrics metrics = measured(*task, {first, second});
  EXPECT_DOUBLE_EQ(metrics.at("ap"), ((1 + 2.0 / 3) / 2 + 0.5) / 2);
  EXPECT_DOUBLE_EQ(metrics.at("roc_auc"), (0.5 + 0) / 2);
  const double nll = cross_entropy(3, 1) + cross_entropy(2, 0) + cross_entropy(1, 1) +
                     cross_entropy(0.2, 0) + cross_entropy(0.1, 1) + cross_entropy(9, 1) +
                     cross_entropy(8, 1) + cross_entropy(7, 1);
  EXPECT_NEAR(metrics.at("nll"), nll / 8, 1e-12);
}

TEST(GraphMultilabel, TrainsByTheMeanOverKnownLabels) {
  const auto task = testing::make_task("graph_multilabel", data_with({{"labels", {2}}}));
  const Answered some = table({1, -2, 0.5, 4}, {1, kUnknown, 0, 1}, 2);
  const double expected = (cross_entropy(1, 1) + cross_entropy(0.5, 0) + cross_entropy(4, 1)) / 3;
  EXPECT_NEAR(task->loss(some.outputs, some.batch).item<double>(), expected, 1e-12);
  EXPECT_EQ(task->weight(some.batch), 3);
  const Answered none = table({1, 2}, {kUnknown, kUnknown}, 2);
  EXPECT_EQ(task->loss(none.outputs, none.batch).item<double>(), 0);
}

TEST(GraphMultilabel, RefusesWhatItCannotJudge) {
  const auto task = testing::make_task("graph_multilabel", data_with({{"labels", {1}}}));
  const Answered alike = table({1, 2}, {1, 1}, 1), odd = table({1, 2}, {0, 0.5F}, 1);
  EXPECT_THROW(measured(*task, {alike}), DataError);
  EXPECT_THROW(measured(*task, {odd}), DataError);
  EXPECT_THROW(task->loss(odd.outputs, odd.batch), DataError);
  EXPECT_THROW(testing::make_task("graph_multilabel", data_with({{"labels", {-1}}})), DataError);
}

TEST(GraphMultilabel, RanksNothingInOneGraphAndMeasuresTheRest) {
  const auto task = testing::make_task("graph_multilabel", data_with({{"labels", {2}}}));
  const Metrics rest = others(*task, table({1, -2}, {1, 0}, 2));
  ASSERT_EQ(rest.size(), 1U);
  EXPECT_NEAR(rest.at("nll"), (cross_entropy(1, 1) + cross_entropy(-2, 0)) / 2, 1e-12);
}

TEST(GraphMultilabel, IsJudgedByWhatIsAskedFor) {
  const DatasetInfo data = data_with({{"labels", {1}}});
  EXPECT_EQ(testing::make_task("graph_multilabel", data)->metrics()[0].name, "ap");
  const auto task = testing::make_task("graph_multilabel", data, "{headline: roc_auc}");
  EXPECT_EQ(task->metrics()[0].name, "roc_auc");
}

}  // namespace
}  // namespace attnlab::graph_multilabel_test
