// Point segmentation: Lovász's loss against its definition, metrics against matrices made by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "framework/eval/segmentation/confusion.h"
#include "framework/eval/segmentation/lovasz.h"
#include "tests/support/gradcheck.h"
#include "tests/support/message_of.h"
#include "tests/support/plugins.h"

namespace attnlab::point_segmentation_test {
namespace {

using attnlab::testing::says;

/// 1 - intersection over union, where a set of points is called wrongly.
double jaccard_loss(const std::vector<bool>& there, const std::vector<bool>& wrong) {
  double both = 0, either = 0;
  for (std::size_t i = 0; i < there.size(); ++i) {
    both += there[i] && !wrong[i];
    either += there[i] || wrong[i];
  }
  return 1 - both / either;
}

/// The Lovász extension by its definition: errors from the largest on, each with what the loss of
/// the set so far gains by its point.
double lovasz_extension(const std::vector<bool>& there, const std::vector<double>& errors) {
  std::vector<std::size_t> order(errors.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return errors[a] > errors[b]; });
  std::vector<bool> wrong(errors.size());
  double sum = 0, before = 0;
  for (const std::size_t i : order) {
    wrong[i] = true;
    const double now = jaccard_loss(there, wrong);
    sum += errors[i] * (now - before);
    before = now;
  }
  return sum;
}

TEST(LovaszSoftmax, IsTheExtensionOfTheJaccardLoss) {
  at::manual_seed(1);
  const Tensor p = at::randn({12, 4}, at::kDouble).softmax(1);
  const Tensor labels = at::randint(3, {12}, at::kLong);  // class 3 does not occur
  double expected = 0;
  for (std::int64_t c = 0; c < 3; ++c) {
    std::vector<bool> there;
    std::vector<double> errors;
    for (std::int64_t i = 0; i < 12; ++i) {
      there.push_back(labels[i].item<std::int64_t>() == c);
      errors.push_back(std::abs((there.back() ? 1 : 0) - p[i][c].item<double>()));
    }
    expected += lovasz_extension(there, errors) / 3;
  }
  EXPECT_NEAR(lovasz_softmax(p, labels).item<double>(), expected, 1e-12);
}

TEST(LovaszSoftmax, OfHardAnswersIsOneMinusTheMeanIou) {
  const Tensor labels = at::tensor({0, 0, 0, 1, 1, 2}, at::kLong);
  const Tensor answers = at::tensor({0, 0, 1, 1, 1, 0}, at::kLong);
  const Tensor p = at::one_hot(answers, 3).to(at::kDouble);
  const double iou = (2.0 / 4 + 2.0 / 3 + 0) / 3;
  EXPECT_NEAR(lovasz_softmax(p, labels).item<double>(), 1 - iou, 1e-12);
}

TEST(LovaszSoftmax, HasItsGradient) {
  at::manual_seed(2);
  const Tensor labels = at::randint(3, {9}, at::kLong);
  const auto f = [&](const std::vector<Tensor>& in) {
    return lovasz_softmax(in[0].softmax(1), labels);
  };
  EXPECT_LT(testing::gradient_error(f, {at::randn({9, 3}, at::kDouble)}), 1e-7);
}

TEST(SegmentationMetrics, AreThoseOfAMatrixMadeByHand) {
  // Labels in rows: 6 of a (4 right), 3 of b (1 right), none of c (1 answered), d neither.
  const Tensor confusion =
      at::tensor({4, 1, 1, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, at::kLong).view({4, 4});
  const Metrics metrics = segmentation_metrics(confusion, {"a", "b", "c", "d"});
  EXPECT_DOUBLE_EQ(metrics.at("iou_a"), 4.0 / 8);
  EXPECT_DOUBLE_EQ(metrics.at("iou_b"), 1.0 / 4);
  EXPECT_DOUBLE_EQ(metrics.at("iou_c"), 0);
  EXPECT_DOUBLE_EQ(metrics.at("iou_d"), 0);
  EXPECT_DOUBLE_EQ(metrics.at("miou"), (0.5 + 0.25 + 0) / 3) << "d does not count";
  EXPECT_DOUBLE_EQ(metrics.at("macc"), (4.0 / 6 + 1.0 / 3) / 2);
  EXPECT_DOUBLE_EQ(metrics.at("accuracy"), 5.0 / 9);
}

TEST(SegmentationMetrics, CountPointsWithoutAnAnswerAsWrong) {
  const Tensor confusion = at::tensor({3, 0, 1, 0, 0, 2}, at::kLong).view({2, 3});
  const Metrics metrics = segmentation_metrics(confusion, {"a", "b"});
  EXPECT_DOUBLE_EQ(metrics.at("iou_a"), 3.0 / 4);
  EXPECT_DOUBLE_EQ(metrics.at("iou_b"), 0);
  EXPECT_DOUBLE_EQ(metrics.at("accuracy"), 3.0 / 6);
  EXPECT_DOUBLE_EQ(metrics.at("macc"), 3.0 / 8);
}

DatasetInfo three_classes() {
  DatasetInfo data;
  data.name = "scenes";
  data.classes = 3;
  data.class_names = {"floor", "traffic sign", "ball"};
  return data;
}

/// Two voxels, three points; the last point has no label.
Batch two_voxels() {
  Batch batch;
  batch.size = 1;
  batch.fields = {{"label@voxel", at::tensor({0, 1}, at::kLong)},
                  {"label@point", at::tensor({0, 2, -1}, at::kLong)},
                  {"inverse@point>voxel", at::tensor({0, 0, 1}, at::kLong)}};
  batch.offsets = {{"voxel", at::tensor({0, 2}, at::kLong)},
                   {"point", at::tensor({0, 3}, at::kLong)}};
  return batch;
}

TEST(PointSegmentation, CountsRawPointsOfEachVoxel) {
  const auto task = testing::make_task("point_segmentation", three_classes());
  const auto meter = task->meter();
  const Tensor logits = at::tensor({1.0, 0.0, 0.0, 0.0, 0.0, 1.0}, at::kDouble).view({2, 3});
  meter->add({{"logits@voxel", logits}}, two_voxels());
  const Metrics metrics = meter->result();
  EXPECT_DOUBLE_EQ(metrics.at("accuracy"), 0.5) << "of two points with labels, in one voxel";
  EXPECT_DOUBLE_EQ(metrics.at("iou_floor"), 0.5);
  EXPECT_EQ(metrics.count("iou_traffic_sign"), 1U);
}

TEST(PointSegmentation, RefusesClassesThatWouldShareAMetric) {
  DatasetInfo data = three_classes();
  data.class_names[2] = "traffic-sign";
  try {
    testing::make_task("point_segmentation", data);
    FAIL() << "one of them would be lost";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), says({"'scenes'", "\"traffic sign\" and \"traffic-sign\"",
                                    "'iou_traffic_sign'", "rename one"}));
  }
}

TEST(PointSegmentation, AddsUpTheProbabilitiesOfViews) {
  const auto task = testing::make_task("point_segmentation", three_classes());
  // Two weak votes for class 2 against a strong one for class 0.
  const double votes[3][3] = {{3, 0, 0}, {0, 0, 2}, {0, 0, 2}};
  const auto judged = [&](const std::vector<std::int64_t>& batches) {
    const auto meter = task->meter();
    std::int64_t view = 0;
    for (const std::int64_t size : batches) {
      std::vector<Batch> parts;
      std::vector<Tensor> logits;
      for (std::int64_t i = 0; i < size; ++i, ++view) {
        Batch part = two_voxels();
        part.fields.set("view", at::tensor({view % 3}, at::kLong));
        parts.push_back(part);
        for (int voxel = 0; voxel < 2; ++voxel) {
          logits.push_back(at::tensor({votes[view % 3][0], votes[view % 3][1], votes[view % 3][2]},
                                      at::kDouble));
        }
      }
      meter->add({{"logits@voxel", at::stack(logits)}}, joined(parts));
    }
    return meter->result();
  };
  for (const auto& batches : {std::vector<std::int64_t>{6}, {1, 1, 1, 1, 1, 1}, {2, 4}, {4, 2}}) {
    const Metrics metrics = judged(batches);
    EXPECT_DOUBLE_EQ(metrics.at("accuracy"), 0.5);
    EXPECT_DOUBLE_EQ(metrics.at("iou_ball"), 0.5) << "the views' sum says ball";
  }
}

/// A cloud with these labels of its voxels; of its points none has one.
Batch labelled(const std::vector<std::int64_t>& labels) {
  const auto voxels = static_cast<std::int64_t>(labels.size());
  Batch batch;
  batch.size = 1;
  batch.fields = {{"label@voxel", at::tensor(labels, at::kLong)},
                  {"label@point", at::full({voxels}, -1, at::kLong)},
                  {"inverse@point>voxel", at::arange(voxels)}};
  batch.offsets = {{"voxel", at::tensor({std::int64_t{0}, voxels})},
                   {"point", at::tensor({std::int64_t{0}, voxels})}};
  return batch;
}

/// Two clouds, the second with a voxel that has no label.
struct TwoClouds {
  std::vector<Batch> parts = {labelled({0, 1, 1}), labelled({2, -1, 0, 0, 1, 2})};
  Batch both = joined(parts);
  Tensor logits = at::randn({9, 3}, at::kDouble);

  double loss(const Task& task) const {
    return task.loss({{"logits@voxel", logits}}, both).item<double>();
  }
  /// The sum of the parts' losses by their weights, over all weights.
  double loss_in_parts(const Task& task) const {
    double sum = 0, weight = 0;
    for (std::size_t i = 0; i < 2; ++i) {
      const Tensor part = i == 0 ? logits.slice(0, 0, 3) : logits.slice(0, 3);
      sum += task.loss({{"logits@voxel", part}}, parts[i]).item<double>() * task.weight(parts[i]);
      weight += task.weight(parts[i]);
    }
    return sum / weight;
  }
};

TEST(PointSegmentation, TakesLovaszOfEachCloudSoThatPartsOfAStepAddUp) {
  at::manual_seed(8);
  const TwoClouds clouds;
  const auto plain = testing::make_task("point_segmentation", three_classes(), "{lovasz: 0}");
  const auto task = testing::make_task("point_segmentation", three_classes(), "{lovasz: 0.5}");
  const Tensor p = clouds.logits.softmax(1), counted = at::tensor({3, 5, 6, 7, 8}, at::kLong);
  const double first =
      lovasz_softmax(p.slice(0, 0, 3), clouds.parts[0].fields.at("label@voxel")).item<double>();
  const double second =
      lovasz_softmax(p.index_select(0, counted), at::tensor({2, 0, 0, 1, 2}, at::kLong))
          .item<double>();
  EXPECT_NEAR(clouds.loss(*task), clouds.loss(*plain) + 0.5 * (3 * first + 5 * second) / 8, 1e-12);
  EXPECT_NEAR(clouds.loss_in_parts(*task), clouds.loss(*task), 1e-12);
}

TEST(PointSegmentation, TakesLovaszOfTheBatchAsPublishedWhereAsked) {
  at::manual_seed(9);
  const TwoClouds clouds;
  const auto plain = testing::make_task("point_segmentation", three_classes(), "{lovasz: 0}");
  const auto task = testing::make_task("point_segmentation", three_classes(), "{lovasz_of: batch}");
  const Tensor rows = at::tensor({0, 1, 2, 3, 5, 6, 7, 8}, at::kLong);
  const double all = lovasz_softmax(clouds.logits.softmax(1).index_select(0, rows),
                                    at::tensor({0, 1, 1, 2, 0, 0, 1, 2}, at::kLong))
                         .item<double>();
  EXPECT_NEAR(clouds.loss(*task), clouds.loss(*plain) + all, 1e-12);
  EXPECT_GT(std::abs(clouds.loss_in_parts(*task) - clouds.loss(*task)), 1e-3);
}

TEST(PointSegmentation, LearnsFromVoxelsWithLabelsAlone) {
  const auto task = testing::make_task("point_segmentation", three_classes(), "{lovasz: 0}");
  Batch batch = two_voxels();
  batch.fields.set("label@voxel", at::tensor({0, -1}, at::kLong));
  const Tensor logits = at::randn({2, 3}, at::kDouble);
  EXPECT_NEAR(task->loss({{"logits@voxel", logits}}, batch).item<double>(),
              -logits.log_softmax(1)[0][0].item<double>(), 1e-12);
  EXPECT_EQ(task->weight(batch), 1);
  batch.fields.set("label@voxel", at::tensor({-1, -1}, at::kLong));
  const auto both = testing::make_task("point_segmentation", three_classes());
  EXPECT_EQ(both->loss({{"logits@voxel", logits}}, batch).item<double>(), 0);
  batch.fields.set("label@voxel", at::tensor({0, 3}, at::kLong));
  EXPECT_THROW(both->loss({{"logits@voxel", logits}}, batch), DataError);
}

}  // namespace
}  // namespace attnlab::point_segmentation_test
