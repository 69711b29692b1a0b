// Point classification: smoothed cross entropy and its metrics, against sums by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/plugins.h"

namespace attnlab::point_classification_test {
namespace {

using ::testing::HasSubstr;
using testing::make_task;

constexpr std::int64_t kClasses = 6;
const std::vector<std::int64_t> kLabels = {0, 3, 5};
/// By cloud: the label's logit is the largest, the third, and the smallest of six.
const std::vector<std::vector<double>> kLogits = {
    {2, 1, 0.5, -1, 0, -2}, {1.5, -0.5, 0.7, 0.6, -3, 0}, {0.1, 0.2, 0.3, 0.4, 0.5, -0.6}};

DatasetInfo clouds(std::int64_t classes = kClasses) {
  DatasetInfo data;
  data.name = "clouds";
  data.fields = {{"class", {}, at::kLong}};
  data.classes = classes;
  return data;
}

Batch labelled() {
  Batch batch;
  batch.size = std::ssize(kLabels);
  batch.fields.set("class", at::tensor(kLabels, at::kLong));
  return batch;
}

NamedTensors outputs() {
  std::vector<double> all;
  for (const auto& row : kLogits) all.insert(all.end(), row.begin(), row.end());
  return {{"logits", at::tensor(all, at::kDouble).view({-1, kClasses})}};
}

/// - log softmax(z)[k]
double nll(const std::vector<double>& z, std::size_t k) {
  double sum = 0;
  for (const double logit : z) sum += std::exp(logit);
  return std::log(sum) - z[k];
}

TEST(PointClassification, LossIsCrossEntropyWithSmoothedLabels) {
  for (const double smoothing : {0.0, 0.3}) {
    double expected = 0;
    for (std::size_t i = 0; i < kLabels.size(); ++i) {
      for (std::size_t k = 0; k < kClasses; ++k) {
        const double own = std::int64_t(k) == kLabels[i] ? 1 - smoothing : 0;
        expected += (own + smoothing / kClasses) * nll(kLogits[i], k) / double(kLabels.size());
      }
    }
    const auto task = make_task("point_classification", clouds(),
                                "{label_smoothing: " + std::to_string(smoothing) + "}");
    EXPECT_NEAR(task->loss(outputs(), labelled()).item<double>(), expected, 1e-12) << smoothing;
  }
}

TEST(PointClassification, MeasuresWithoutSmoothing) {
  const auto task = make_task("point_classification", clouds(), "{label_smoothing: 0.3}");
  EXPECT_EQ(task->metrics()[0].name, "accuracy");
  const auto meter = task->meter();
  meter->add(outputs(), labelled());
  const Metrics metrics = meter->result();
  double expected = 0;
  for (std::size_t i = 0; i < kLabels.size(); ++i) {
    expected += nll(kLogits[i], std::size_t(kLabels[i])) / double(kLabels.size());
  }
  EXPECT_NEAR(metrics.at("nll"), expected, 1e-12);
  EXPECT_DOUBLE_EQ(metrics.at("accuracy"), 1.0 / 3);
  EXPECT_DOUBLE_EQ(metrics.at("top5"), 2.0 / 3);
}

TEST(PointClassification, RefusesDataWithoutClasses) {
  EXPECT_THAT([] { make_task("point_classification", clouds(0)); },
              ::testing::ThrowsMessage<DataError>(HasSubstr("'clouds'")));
}

}  // namespace
}  // namespace attnlab::point_classification_test
