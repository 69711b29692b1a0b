// The tasks of graphs: losses and metrics against cases by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/plugins.h"

namespace attnlab::graph_tasks_test {
namespace {

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

DatasetInfo data_with(const std::vector<FieldInfo>& fields, std::int64_t classes = 0) {
  DatasetInfo data;
  data.name = "graphs";
  data.fields = fields;
  data.classes = classes;
  return data;
}

/// Outputs and labels that one row of each is an example of.
struct Answered {
  NamedTensors outputs;
  Batch batch;
};

Answered table(const std::vector<double>& logits, const std::vector<float>& labels,
               std::int64_t targets) {
  Answered answered;
  answered.outputs.set("logits", at::tensor(logits, at::kDouble).view({-1, targets}));
  answered.batch.fields.set("labels", at::tensor(labels, at::kFloat).view({-1, targets}));
  answered.batch.size = answered.batch.fields.at("labels").size(0);
  return answered;
}

Metrics measured(const Task& task, const std::vector<Answered>& all) {
  const auto meter = task.meter();
  for (const Answered& one : all) meter->add(one.outputs, one.batch);
  return meter->result();
}

/// What is left of the metrics where some have no value.
Metrics others(const Task& task, const Answered& all) {
  try {
    measured(task, {all});
  } catch (const UndefinedMetrics& some) {
    return some.others();
  }
  ADD_FAILURE() << "all have one";
  return {};
}

double cross_entropy(double logit, double label) {
  const double p = 1 / (1 + std::exp(-logit));
  return -label * std::log(p) - (1 - label) * std::log(1 - p);
}

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

TEST(GraphRegression, StatesErrorsInTheTargetsOwnUnits) {
  const FieldInfo labels = {.name = "labels", .shape = {2}, .mean = {5, 0}, .deviation = {10, 2}};
  const auto task = testing::make_task("graph_regression", data_with({labels}));
  // Errors 0.1, 0.3 (times 10) and 1 (times 2), one label unknown.
  const Answered some = table({0.1, 0, 0.7, 2}, {0, kUnknown, 1, 1}, 2);
  const Metrics metrics = measured(*task, {some});
  EXPECT_NEAR(metrics.at("mae"), ((1.0 + 3.0) / 2 + 2) / 2, 1e-12);
  EXPECT_NEAR(metrics.at("rmse"), (std::sqrt((1.0 + 9.0) / 2) + 2) / 2, 1e-12);
  EXPECT_NEAR(task->loss(some.outputs, some.batch).item<double>(), (0.1 + 0.3 + 1) / 3, 1e-12);
  const auto squares = testing::make_task("graph_regression", data_with({labels}), "{loss: mse}");
  EXPECT_NEAR(squares->loss(some.outputs, some.batch).item<double>(), (0.01 + 0.09 + 1) / 3, 1e-12);
}

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

Answered nodes(const std::vector<double>& logits, const std::vector<std::int64_t>& classes,
               std::int64_t count) {
  Answered answered;
  answered.outputs.set("logits@node", at::tensor(logits, at::kDouble).view({-1, count}));
  answered.batch.fields.set("class@node", at::tensor(classes, at::kLong));
  answered.batch.size = 1;
  return answered;
}

TEST(NodeClassification, MeasuresRecallOfEachClass) {
  const auto task =
      testing::make_task("node_classification", data_with({{"class@node", {-1}, at::kLong}}, 3));
  // Said 0 0 1 1 0 2; true 0 0 0 1 1 and one that does not count. Class 2 has no nodes.
  const Answered all =
      nodes({1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1}, {0, 0, 0, 1, 1, -1}, 3);
  const Metrics metrics = measured(*task, {all});
  EXPECT_DOUBLE_EQ(metrics.at("accuracy"), 3.0 / 5);
  EXPECT_DOUBLE_EQ(metrics.at("recall"), (2.0 / 3 + 1.0 / 2) / 2);
  EXPECT_DOUBLE_EQ(metrics.at("f1"), (2 * 2 / (3.0 + 3.0) + 2 * 1 / (2.0 + 2.0)) / 2);
  EXPECT_EQ(task->weight(all.batch), 5);
}

TEST(NodeClassification, GivesNoCreditForLogitsThatAreNoNumbers) {
  const auto task =
      testing::make_task("node_classification", data_with({{"class@node", {-1}, at::kLong}}, 2));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Metrics metrics = measured(*task, {nodes({nan, nan, nan, nan, 1, 0}, {0, 1, 1}, 2)});
  EXPECT_DOUBLE_EQ(metrics.at("accuracy"), 0);
  EXPECT_DOUBLE_EQ(metrics.at("recall"), 0);
  EXPECT_DOUBLE_EQ(metrics.at("f1"), 0);
}

TEST(NodeClassification, WeighsClassesByWhatABatchHasOfThem) {
  const DatasetInfo data = data_with({{"class@node", {-1}, at::kLong}}, 3);
  const auto task = testing::make_task("node_classification", data, "{class_weights: batch}");
  const Answered all = nodes({2, 0, 1, 0, 1, 0, 3, 0, 0, 1, 1, 0, 9, 9, 9}, {0, 0, 0, 1, -1}, 3);
  double sum = 0, weights = 0;
  for (std::int64_t i = 0; i < 4; ++i) {
    const Tensor logits = all.outputs.at("logits@node")[i];
    const auto wanted = all.batch.fields.at("class@node")[i].item<std::int64_t>();
    const double weight = wanted == 0 ? 1.0 / 4 : 3.0 / 4;
    sum -= weight * logits.log_softmax(0)[wanted].item<double>();
    weights += weight;
  }
  EXPECT_NEAR(task->loss(all.outputs, all.batch).item<double>(), sum / weights, 1e-12);
  const Answered alike = nodes({2, 0, 1, 0, 1, 0}, {1, 1}, 3);
  EXPECT_TRUE(std::isfinite(task->loss(alike.outputs, alike.batch).item<double>()));
  const Answered none = nodes({2, 0, 1}, {-1}, 3);
  EXPECT_EQ(task->loss(none.outputs, none.batch).item<double>(), 0);
}

/// Two graphs, of three nodes and of two; the second has no links.
Answered linked() {
  Answered answered;
  answered.outputs.set(
      "features@node",
      at::tensor({1.0, 0.0, 2.0, 1.0, 3.0, 0.0, 5.0, 5.0, 1.0, 1.0}, at::kDouble).view({5, 2}));
  answered.batch.fields.set("pairs@pair>node",
                            at::tensor({0, 1, 0, 2, 1, 0, 3, 4}, at::kLong).view({4, 2}));
  answered.batch.fields.set("link@pair", at::tensor({1, 1, 0, 0}, at::kLong));
  answered.batch.offsets.set("node", at::tensor({0, 3, 5}, at::kLong));
  answered.batch.offsets.set("pair", at::tensor({0, 3, 4}, at::kLong));
  answered.batch.size = 2;
  return answered;
}

TEST(LinkPrediction, RanksTailsAmongTheNodesOfTheirGraph) {
  const auto task = testing::make_task("link_prediction", data_with({}));
  // From node 0 the scores are 1 (itself), 2 and 3: tail 1 is second, tail 2 first. Filtered, tail
  // 1 competes with node 0 alone.
  const Metrics metrics = measured(*task, {linked()});
  EXPECT_DOUBLE_EQ(metrics.at("mrr"), (1.0 / 2 + 1) / 2);
  EXPECT_DOUBLE_EQ(metrics.at("mrr_filtered"), 1);
  EXPECT_DOUBLE_EQ(metrics.at("hits1"), 0.5);
  EXPECT_DOUBLE_EQ(metrics.at("hits3"), 1);
}

TEST(LinkPrediction, RanksNothingWithoutALink) {
  Answered all = linked();
  all.batch.fields.set("link@pair", at::zeros({4}, at::kLong));
  EXPECT_TRUE(others(*testing::make_task("link_prediction", data_with({})), all).empty());
}

/// Behind a graph of two nodes one of five, whose links (1, 2) and (2, 4) are asked for.
Answered linked_before() {
  Answered answered;
  answered.outputs.set("features@node",
                       at::tensor({7.0, 8.0, 1e-3, 1.0, 2.0, 3.0, 1.5}, at::kDouble).view({7, 1}));
  answered.batch.fields.set("pairs@pair>node", at::tensor({3, 4, 4, 6}, at::kLong).view({2, 2}));
  answered.batch.fields.set("link@pair", at::tensor({1, 1}, at::kLong));
  answered.batch.offsets.set("node", at::tensor({0, 2, 7}, at::kLong));
  answered.batch.offsets.set("pair", at::tensor({0, 0, 2}, at::kLong));
  answered.batch.size = 2;
  return answered;
}

TEST(LinkPrediction, FiltersLinksInWhicheverDirectionTheyAreStored) {
  const auto task = testing::make_task("link_prediction", data_with({}));
  // From node 2 the others score 0.002 2 4 6, and 3 for the tail 4: it is third. Filtered by (1,
  // 2), which stands the other way round, it stays third, since node 1 scores less. From node 1 the
  // tail 2 scores 2 among 0.001 1 3 1.5, second either way.
  const Answered all = linked_before();
  Metrics metrics = measured(*task, {all});
  EXPECT_DOUBLE_EQ(metrics.at("mrr"), (1.0 / 3 + 1.0 / 2) / 2);
  EXPECT_DOUBLE_EQ(metrics.at("mrr_filtered"), (1.0 / 3 + 1.0 / 2) / 2);
  // With (3, 2) instead, node 3 no longer counts for head 2: itself alone is before the tail. From
  // node 3 the tail 2 scores 6 among 0.003 3 9 4.5, second.
  all.batch.fields.at("pairs@pair>node")[0][0] = 5;
  metrics = measured(*task, {all});
  EXPECT_DOUBLE_EQ(metrics.at("mrr"), (1.0 / 3 + 1.0 / 2) / 2);
  EXPECT_DOUBLE_EQ(metrics.at("mrr_filtered"), (1.0 / 2 + 1.0 / 2) / 2);
}

TEST(LinkPrediction, FiltersLinksOfOtherSplits) {
  const auto task = testing::make_task("link_prediction", data_with({}));
  Answered all = linked_before();
  // A training link (3, 2), one of the other graph, and the asked ones, which a dataset lists, too.
  all.batch.fields.set("links@link>node",
                       at::tensor({0, 1, 5, 4, 3, 4, 4, 6}, at::kLong).view({4, 2}));
  all.batch.offsets.set("link", at::tensor({0, 1, 4}, at::kLong));
  const Metrics metrics = measured(*task, {all});
  EXPECT_DOUBLE_EQ(metrics.at("mrr"), (1.0 / 3 + 1.0 / 2) / 2);
  EXPECT_DOUBLE_EQ(metrics.at("mrr_filtered"), (1.0 / 2 + 1.0 / 2) / 2);
  EXPECT_DOUBLE_EQ(metrics.at("hits3"), 1);
}

TEST(LinkPrediction, CountsRanksUpToTenAsHitsAtTen) {
  const auto task = testing::make_task("link_prediction", data_with({}));
  // From node 0 a node i scores i + 1. Of 13 nodes nine score more than node 3 and ten more than
  // node 2.
  Answered all;
  all.outputs.set("features@node", (at::arange(13, at::kDouble) + 1).view({13, 1}));
  all.batch.fields.set("pairs@pair>node", at::tensor({0, 3, 0, 2}, at::kLong).view({2, 2}));
  all.batch.fields.set("link@pair", at::tensor({1, 1}, at::kLong));
  all.batch.offsets.set("node", at::tensor({0, 13}, at::kLong));
  all.batch.offsets.set("pair", at::tensor({0, 2}, at::kLong));
  all.batch.size = 1;
  const Metrics metrics = measured(*task, {all});
  EXPECT_DOUBLE_EQ(metrics.at("mrr"), (1.0 / 10 + 1.0 / 11) / 2);
  EXPECT_DOUBLE_EQ(metrics.at("hits10"), 0.5);
  EXPECT_DOUBLE_EQ(metrics.at("hits3"), 0);
}

TEST(LinkPrediction, TrainsByDotProducts) {
  const auto task = testing::make_task("link_prediction", data_with({}));
  const Answered all = linked();
  const double expected =
      (cross_entropy(2, 1) + cross_entropy(3, 1) + cross_entropy(2, 0) + cross_entropy(10, 0)) / 4;
  EXPECT_NEAR(task->loss(all.outputs, all.batch).item<double>(), expected, 1e-9);
  EXPECT_EQ(task->weight(all.batch), 4);
}

TEST(LinkPrediction, AModelThatSaysNothingRanksInTheMiddle) {
  const auto task = testing::make_task("link_prediction", data_with({}));
  Answered all = linked();
  all.outputs.set("features@node", at::zeros({5, 2}, at::kDouble));
  EXPECT_DOUBLE_EQ(measured(*task, {all}).at("mrr"), 1.0 / 2);
  all.batch.fields.set("link@pair", at::zeros({4}, at::kLong));
  EXPECT_THROW(measured(*task, {all}), DataError);
}

}  // namespace
}  // namespace attnlab::graph_tasks_test
