// Graph regression: losses and metrics against cases by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/plugins/graphs/graph_answers.h"
#include "tests/support/plugins.h"

namespace attnlab::graph_regression_test {
namespace {

using graph_answers::Answered;
using graph_answers::data_with;
using graph_answers::kUnknown;
using graph_answers::measured;
using graph_answers::table;

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

}  // namespace
}  // namespace attnlab::graph_regression_test
