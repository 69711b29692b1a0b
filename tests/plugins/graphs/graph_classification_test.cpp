// Graph classification: losses and metrics against cases by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plugins/graphs/graph_answers.h"
#include "tests/support/plugins.h"

namespace attnlab::graph_classification_test {
namespace {

using graph_answers::Answered;
using graph_answers::data_with;
using graph_answers::measured;
using graph_answers::others;

TEST(GraphClassification, MeasuresAreasOfEachClassAgainstTheOthers) {
  const auto task =
      testing::make_task("graph_classification", data_with({{"class", {}, at::kLong}}, 3));
  Answered all;
  // Class 2 does not occur. Probabilities of class 0: 0.6 0.2 0.5; of class 1: 0.3 0.7 0.4.
  all.outputs.set(
      "logits",
      at::tensor({0.6, 0.3, 0.1, 0.2, 0.7, 0.1, 0.5, 0.4, 0.1}, at::kDouble).log().view({3, 3}));
  all.batch.fields.set("class", at::tensor({0, 1, 1}, at::kLong));
  all.batch.size = 3;
  const Metrics metrics = measured(*task, {all});
  EXPECT_DOUBLE_EQ(metrics.at("accuracy"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(metrics.at("roc_auc"), 1);
  all.batch.fields.set("class", at::tensor({1, 0, 1}, at::kLong));
  // Class 0 at 0.2 under 0.6 and 0.5; class 1 at 0.3 and 0.4 under 0.7.
  EXPECT_DOUBLE_EQ(measured(*task, {all}).at("roc_auc"), 0);
}

TEST(GraphClassification, OfTwoClassesRanksByTheSecond) {
  const DatasetInfo data = data_with({{"class", {}, at::kLong}}, 2);
  const auto task = testing::make_task("graph_classification", data, "{roc_auc: headline}");
  EXPECT_EQ(task->metrics()[0].name, "roc_auc");
  Answered all;
  all.outputs.set("logits", at::tensor({0., 1., 0., 3., 0., 2.}, at::kDouble).view({3, 2}));
  all.batch.fields.set("class", at::tensor({0, 1, 1}, at::kLong));
  all.batch.size = 3;
  EXPECT_DOUBLE_EQ(measured(*task, {all}).at("roc_auc"), 1);
  all.batch.fields.set("class", at::tensor({1, 1, 1}, at::kLong));
  EXPECT_THROW(measured(*task, {all}), DataError);
  EXPECT_EQ(others(*task, all).count("accuracy"), 1U);
  EXPECT_EQ(others(*task, all).count("roc_auc"), 0U);
  const auto without = testing::make_task("graph_classification", data, "{roc_auc: none}");
  EXPECT_EQ(measured(*without, {all}).count("roc_auc"), 0u);
}

TEST(GraphClassification, RanksAnswersOfWhichItIsSure) {
  const auto task =
      testing::make_task("graph_classification", data_with({{"class", {}, at::kLong}}, 2));
  Answered all;  // probabilities are 1 for both
  all.outputs.set("logits", at::tensor({0., 40., 0., 38.}, at::kDouble).view({2, 2}));
  all.batch.fields.set("class", at::tensor({1, 0}, at::kLong));
  all.batch.size = 2;
  EXPECT_DOUBLE_EQ(measured(*task, {all}).at("roc_auc"), 1);
}

}  // namespace
}  // namespace attnlab::graph_classification_test
