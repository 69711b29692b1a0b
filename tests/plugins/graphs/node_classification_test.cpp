// Node classification: losses and metrics against cases by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/plugins/graphs/graph_answers.h"
#include "tests/support/plugins.h"

namespace attnlab::node_classification_test {
namespace {

using graph_answers::Answered;
using graph_answers::data_with;
using graph_answers::measured;
using graph_answers::nodes;

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

}  // namespace
}  // namespace attnlab::node_classification_test
