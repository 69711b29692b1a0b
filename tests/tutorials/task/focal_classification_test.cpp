// Focal classification against its equations.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/plugins.h"

namespace attnlab {
namespace {

DatasetInfo three_classes() {
  DatasetInfo data;
  data.name = "threes";
  data.fields = {{"class", {}, at::kLong}};
  data.classes = 3;
  return data;
}

Batch labelled(const std::vector<std::int64_t>& classes) {
  Batch batch;
  batch.size = static_cast<std::int64_t>(classes.size());
  batch.fields.set("class", at::tensor(classes, at::kLong));
  return batch;
}

TEST(FocalClassification, LooksAwayFromWhatIsRightAlready) {
  const Tensor logits = at::tensor({2.0, 0.0, -1.0, 0.5, 0.0, 0.0}, at::kDouble).view({2, 3});
  const std::vector<std::int64_t> classes = {0, 2};
  double expected = 0;
  for (std::int64_t i = 0; i < 2; ++i) {
    double sum = 0;
    for (std::int64_t k = 0; k < 3; ++k) sum += std::exp(logits[i][k].item<double>());
    const double p = std::exp(logits[i][classes[i]].item<double>()) / sum;
    expected -= std::pow(1 - p, 1.5) * std::log(p) / 2;
  }
  const auto task = testing::make_task("focal_classification", three_classes(), "{gamma: 1.5}");
  const double found = task->loss({{"logits", logits}}, labelled(classes)).item<double>();
  EXPECT_NEAR(found, expected, 1e-12);
}

TEST(FocalClassification, CountsEveryClassAlike) {
  // Nine of ten are of class 0 and answered so; the one of class 1 is not.
  Tensor logits = at::zeros({10, 3}, at::kDouble);
  logits.select(1, 0).fill_(1);
  const auto task = testing::make_task("focal_classification", three_classes());
  const auto meter = task->meter();
  meter->add({{"logits", logits.narrow(0, 0, 4)}}, labelled({0, 0, 0, 0}));
  meter->add({{"logits", logits.narrow(0, 4, 6)}}, labelled({0, 0, 0, 0, 0, 1}));
  EXPECT_DOUBLE_EQ(meter->result().at("balanced_accuracy"), 0.5);
}

TEST(FocalClassification, RefusesAClassThatTheModelDoesNotKnow) {
  const auto task = testing::make_task("focal_classification", three_classes());
  EXPECT_THROW(task->loss({{"logits", at::zeros({1, 3})}}, labelled({3})), DataError);
}

}  // namespace
}  // namespace attnlab
