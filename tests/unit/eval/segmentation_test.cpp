// Segmentation: counts, metrics, Dice's loss and sliding windows against plain loops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "framework/eval/segmentation/confusion.h"
#include "framework/eval/segmentation/dice.h"
#include "framework/eval/segmentation/windows.h"
#include "tests/support/gradcheck.h"
#include "tests/support/message_of.h"

namespace attnlab::segmentation_test {
namespace {

using attnlab::testing::mentions;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

/// Metrics of labels and answers, pixel by pixel and class by class.
std::map<std::string, double> metrics_by_loops(const std::vector<std::int64_t>& labels,
                                               const std::vector<std::int64_t>& answers,
                                               std::int64_t classes) {
  std::map<std::string, double> metrics;
  double ious = 0, iou_sum = 0, recalls = 0, recall_sum = 0, right = 0, all = 0;
  for (std::int64_t c = 0; c < classes; ++c) {
    double both = 0, either = 0, labelled = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] < 0) continue;
      both += labels[i] == c && answers[i] == c;
      either += labels[i] == c || answers[i] == c;
      labelled += labels[i] == c;
    }
    metrics["iou_" + std::to_string(c)] = either > 0 ? both / either : 0;
    ious += either > 0;
    iou_sum += either > 0 ? both / either : 0;
    recalls += labelled > 0;
    recall_sum += labelled > 0 ? both / labelled : 0;
    right += both;
    all += labelled;
  }
  metrics["miou"] = iou_sum / ious;
  metrics["macc"] = recall_sum / recalls;
  metrics["accuracy"] = right / all;
  return metrics;
}

std::vector<std::int64_t> numbers_of(const Tensor& tensor) {
  const Tensor dense = tensor.contiguous();
  const auto* begin = dense.data_ptr<std::int64_t>();
  return {begin, begin + dense.numel()};
}

TEST(SegmentationCounts, GiveTheMetricsOfPlainLoops) {
  at::manual_seed(1);
  constexpr std::int64_t kClasses = 6;  // class 5 neither occurs nor is answered
  const std::vector<std::string> names = {"0", "1", "2", "3", "4", "5"};
  const Tensor confusion = at::zeros({kClasses, kClasses + 1}, at::kLong);
  std::vector<std::int64_t> labels, answers;
  // The second is large enough for several threads.
  for (const std::int64_t side : {7, 400}) {
    const Tensor own = at::randint(-1, 5, {side, side + 1}, at::kLong);
    Tensor said = at::where(at::rand({side, side + 1}).lt(0.6), own.clamp_min(0),
                            at::randint(5, {side, side + 1}, at::kLong));
    said.view({-1})[3] = kClasses;  // no answer
    count_answers(own, said, confusion, "label_map");
    for (const std::int64_t label : numbers_of(own)) labels.push_back(label);
    for (const std::int64_t answer : numbers_of(said)) answers.push_back(answer);
  }
  const Metrics metrics = segmentation_metrics(confusion, names);
  for (const auto& [name, value] : metrics_by_loops(labels, answers, kClasses)) {
    EXPECT_NEAR(metrics.at(name), value, 1e-12) << name;
  }
}

TEST(SegmentationCounts, RefuseLabelsBeyondTheClasses) {
  const Tensor confusion = at::zeros({2, 3}, at::kLong);
  EXPECT_THAT(message_of<DataError>([&] {
                count_answers(at::tensor({0, 2}, at::kLong), at::tensor({0, 1}, at::kLong),
                              confusion, "label_map");
              }),
              mentions("label_map:", "label 2", "below 2"));
  EXPECT_EQ(confusion.sum().item<std::int64_t>(), 0) << "nothing of it was counted";
  EXPECT_THAT(message_of<ShapeError>([&] {
                count_answers(at::zeros({2}, at::kLong), at::zeros({3}, at::kLong), confusion, "x");
              }),
              mentions("x:", "int64", "[3]"));
  EXPECT_THAT(message_of<Error>([&] {
                segmentation_metrics(confusion, {"a", "b"});
              }),
              HasSubstr("nothing with a label"));
}

TEST(SegmentationAnswers, AreTheLargestAndNoneWhereOneIsNoNumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor scores = at::tensor({1., 5., 2., 3., 3., nan, 0., 4., 7.}).view({3, 3});
  EXPECT_THAT(numbers_of(answers_of(scores, 1)), ElementsAre(1, 3, 2));
  EXPECT_THAT(numbers_of(answers_of(scores.t(), 0)), ElementsAre(1, 3, 2));
}

TEST(SegmentationNames, AreWordsOfMetrics) {
  DatasetInfo data;
  data.name = "streets";
  data.classes = 2;
  data.class_names = {"traffic sign", "car"};
  EXPECT_THAT(class_words(data, "semantic_segmentation"), ElementsAre("traffic_sign", "car"));
  data.class_names = {"car"};
  EXPECT_THAT(message_of<DataError>([&] { class_words(data, "semantic_segmentation"); }),
              mentions("'streets'", "names", "semantic_segmentation"));
}

TEST(DiceLoss, IsThatOfPlainLoops) {
  at::manual_seed(2);
  const Tensor p = at::randn({30, 5}, at::kDouble).softmax(1);
  const Tensor labels = at::randint(4, {30}, at::kLong);  // class 4 does not occur
  double expected = 0;
  std::set<std::int64_t> there;
  for (const std::int64_t label : numbers_of(labels)) there.insert(label);
  for (const std::int64_t c : there) {
    double both = 0, sum = 0;
    for (std::int64_t i = 0; i < 30; ++i) {
      const double own = p[i][c].item<double>();
      const double is = labels[i].item<std::int64_t>() == c ? 1 : 0;
      both += own * is;
      sum += own + is;
    }
    expected += (1 - 2 * both / sum) / double(there.size());
  }
  EXPECT_NEAR(dice_loss(p, labels).item<double>(), expected, 1e-12);
}

TEST(DiceLoss, HasItsGradientAndIsZeroForRightAnswers) {
  at::manual_seed(3);
  const Tensor labels = at::randint(2, {9}, at::kLong);  // class 2 does not occur
  const auto f = [&](const std::vector<Tensor>& in) { return dice_loss(in[0].softmax(1), labels); };
  EXPECT_LT(testing::gradient_error(f, {at::randn({9, 3}, at::kDouble)}), 1e-7);
  EXPECT_NEAR(dice_loss(at::one_hot(labels, 3).to(at::kDouble), labels).item<double>(), 0, 1e-12);
  Tensor never = at::zeros({2, 3}, at::kDouble);  // of class 2 no probability at all
  never.select(1, 0).fill_(1);
  never.requires_grad_();
  dice_loss(never, at::zeros({2}, at::kLong)).backward();
  EXPECT_TRUE(never.grad().isfinite().all().item<bool>());
  EXPECT_EQ(dice_loss(at::zeros({0, 3}), at::zeros({0}, at::kLong)).item<double>(), 0);
}

TEST(SlidingWindows, CoverThePictureAndEndWithIt) {
  EXPECT_THAT(window_places(10, 4, 4), ElementsAre(0, 4, 6));
  EXPECT_THAT(window_places(12, 4, 4), ElementsAre(0, 4, 8));
  EXPECT_THAT(window_places(4, 4, 2), ElementsAre(0));
  EXPECT_THAT(window_places(9, 4, 3), ElementsAre(0, 3, 5));
  for (std::int64_t length = 5; length < 40; ++length) {
    for (std::int64_t stride = 1; stride <= 5; ++stride) {
      std::vector<int> seen(std::size_t(length), 0);
      for (const std::int64_t at : window_places(length, 5, stride)) {
        ASSERT_GE(at, 0);
        ASSERT_LE(at + 5, length);
        for (std::int64_t i = at; i < at + 5; ++i) ++seen[std::size_t(i)];
      }
      for (const int count : seen) EXPECT_GE(count, 1) << length << " " << stride;
    }
  }
}

/// Scores of a window that depend on where a pixel stands in it: 2 classes.
Tensor by_place(const Tensor& windows) {
  const Tensor place = at::arange(windows.size(3), windows.options());
  return at::cat({windows.narrow(1, 0, 1) * 2, windows.narrow(1, 1, 1) + place}, 1);
}

TEST(SlidingWindows, GiveTheMeanOfTheWindowsThatShowAPixel) {
  at::manual_seed(4);
  const Tensor picture = at::randn({3, 9, 11}, at::kDouble);
  const Tensor scores = windowed_scores(picture, 4, 3, by_place);
  ASSERT_EQ(scores.sizes(), (at::IntArrayRef{2, 9, 11}));
  const std::vector<std::int64_t> rows = {0, 3, 5}, columns = {0, 3, 6, 7};
  for (std::int64_t y = 0; y < 9; ++y) {
    for (std::int64_t x = 0; x < 11; ++x) {
      double count = 0, places = 0;
      for (const std::int64_t top : rows) {
        for (const std::int64_t left : columns) {
          if (y < top || y >= top + 4 || x < left || x >= left + 4) continue;
          ++count;
          places += double(x - left);
        }
      }
      EXPECT_NEAR(scores[0][y][x].item<double>(), 2 * picture[0][y][x].item<double>(), 1e-12);
      EXPECT_NEAR(scores[1][y][x].item<double>(), picture[1][y][x].item<double>() + places / count,
                  1e-12);
    }
  }
}

TEST(SlidingWindows, AreOneWindowWhereThePictureFits) {
  const Tensor picture = at::randn({3, 6, 6}, at::kDouble);
  int passes = 0;
  const Tensor scores = windowed_scores(picture, 6, 2, [&](const Tensor& windows) {
    passes += int(windows.size(0));
    return by_place(windows);
  });
  EXPECT_EQ(passes, 1);
  EXPECT_TRUE(scores.equal(by_place(picture.unsqueeze(0))[0]));
}

TEST(AtSize, InterpolatesAsPytorchDoesWithoutAlignedCorners) {
  const Tensor x = at::tensor({0., 4.}).view({1, 1, 1, 2});
  const Tensor wide = at_size(x, 1, 4).view({4});
  const Tensor expected = at::tensor({0., 1., 3., 4.});
  EXPECT_TRUE(at::allclose(wide, expected)) << wide;
  EXPECT_TRUE(at_size(x, 1, 2).is_same(x));
}

}  // namespace
}  // namespace attnlab::segmentation_test
