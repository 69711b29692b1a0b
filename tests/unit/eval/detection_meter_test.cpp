// What detection measures, against numbers by hand.
#include "framework/eval/detection/detection_meter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/eval/three_images.h"

namespace attnlab::detection_meter_test {
namespace {

using testing::boxes_of_classes;
using testing::three_images;

TEST(DetectionMeter, OfAClosedSetTakesEachClassByItsOwnAnswers) {
  DetectionMeter meter(boxes_of_classes({"cat", "dog"}), /*one_shot=*/false, 100);
  // Image 0: the cat is found, the dog by an answer of IoU 0.64, the crowd by one inside, which
  // counts for nothing. Image 1, without boxes: a wrong cat that stands above all. Image 2: the
  // difficult dog is answered, the other one is missed.
  const float low = -9;
  const Tensor logits = at::tensor({2.f, low, low, 1.f, low, 0.5f,  //
                                    3.f, low, low, low, low, low,   //
                                    low, 0.7f, low, low, low, low})
                            .view({3, 3, 2});
  const auto box = [](double x0, double y0, double x1, double y1) {
    return std::vector<double>{(x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0};
  };
  std::vector<double> numbers;
  for (const auto& one :
       {box(0, 0, .2, .4), box(.5, .5, .66, .82), box(.9, .9, 1, 1), box(.5, 0, .6, .1),
        box(0, 0, 0, 0), box(0, 0, 0, 0), box(.1, .1, .2, .2), box(0, 0, 0, 0), box(0, 0, 0, 0)}) {
    numbers.insert(numbers.end(), one.begin(), one.end());
  }
  const Tensor boxes = at::tensor(numbers, at::kDouble).view({3, 3, 4});
  meter.add({{"logits", logits}, {"boxes", boxes}}, three_images());
  const Metrics metrics = meter.result();
  // Cats: wrong, then right of one: 1/2. Dogs: right of two, then (low scores) only wrong ones.
  EXPECT_NEAR(metrics.at("ap50_cat"), 0.5, 1e-9);
  EXPECT_NEAR(metrics.at("ap50_dog"), 51 / 101.0, 1e-9);
  EXPECT_NEAR(metrics.at("ap50"), (0.5 + 51 / 101.0) / 2, 1e-9);
  // At 0.75 the dog's answer is wrong; at 0.5, 0.55 and 0.6 of ten thresholds it is right.
  EXPECT_NEAR(metrics.at("ap75"), 0.25, 1e-9);
  EXPECT_NEAR(metrics.at("ap"), (0.5 + 3 * 51 / 1010.0) / 2, 1e-9);
  // Areas of the annotations, 4 to 8 pixels: all are small.
  EXPECT_NEAR(metrics.at("ap_small"), metrics.at("ap"), 1e-9);
  EXPECT_EQ(metrics.at("ap_large"), 0);
  EXPECT_EQ(metrics.count("ap50_per_image"), 0U);
}

TEST(DetectionMeter, SplitsClassesAndGroupsAndImages) {
  DatasetInfo data = boxes_of_classes({"cat", "big dog"});
  data.class_groups = {{"base", {0}}, {"novel", {1}}};
  data.fields = {{"label@box", {-1}, at::kLong, {}, 2},
                 {"ignored@box", {-1}, at::kLong, {}, 3},
                 {"prompt_class", {}, at::kLong, {}, 2},
                 {"prompt_number", {}, at::kLong}};
  Batch batch;
  batch.size = 2;
  batch.fields = {
      {"box@box",
       at::tensor({0.f, 0.f, 0.5f, 0.5f, 0.5f, 0.5f, 1.f, 1.f, 0.f, 0.f, 1.f, 1.f}).view({3, 4})},
      {"label@box", at::tensor({0, 1, 1}, at::kLong)},
      {"area@box", at::tensor({2500.f, 2500.f, 10000.f})},
      {"ignored@box", at::zeros({3}, at::kLong)},
      {"size", at::tensor({100, 100, 100, 100}, at::kLong).view({2, 2})},
      {"prompt_class", at::tensor({0, 1}, at::kLong)},
      {"prompt_number", at::zeros({2}, at::kLong)},
      {"image_id", at::tensor({4, 5}, at::kLong)}};
  batch.offsets.set("box", at::tensor({0, 2, 3}, at::kLong));
  // The first image's cat is found; in the second one the answer is somewhere else.
  const NamedTensors outputs = {
      {"logits", at::tensor({2.f, 1.f}).view({2, 1, 1})},
      {"boxes", at::tensor({0.25f, 0.25f, 0.5f, 0.5f, 0.1f, 0.1f, 0.1f, 0.1f}).view({2, 1, 4})}};
  DetectionMeter meter(data, /*one_shot=*/true, 100);
  meter.add(outputs, batch);
  const Metrics metrics = meter.result();
  EXPECT_NEAR(metrics.at("ap50_base"), 1, 1e-12);
  EXPECT_NEAR(metrics.at("ap50_novel"), 0, 1e-12);
  EXPECT_NEAR(metrics.at("ap50"), 0.5, 1e-12);
  EXPECT_NEAR(metrics.at("ap50_per_image"), 0.5, 1e-12);
  EXPECT_NEAR(metrics.at("ap50_big_dog"), 0, 1e-12);
  EXPECT_NEAR(metrics.at("ap50_per_image_cat"), 1, 1e-12);
  EXPECT_NEAR(metrics.at("ap50_per_image_big_dog"), 0, 1e-12);
  std::vector<std::string> stated, given;
  for (const MetricInfo& info : detection_metrics(data, true)) stated.push_back(info.name);
  for (const auto& [name, value] : metrics) given.push_back(name);
  std::sort(stated.begin(), stated.end());
  EXPECT_EQ(stated, given);
}

/// An image of 100 x 100 with one box, its left upper quarter, and the only answer to a prompt.
struct AskedImage {
  std::int64_t id, label, prompt;
  double score;
  bool right;
};

Metrics metrics_of(const std::vector<AskedImage>& asked) {
  DatasetInfo data = boxes_of_classes({"cat", "dog"});
  data.class_groups = {{"base", {0, 1}}};
  DetectionMeter meter(data, /*one_shot=*/true, 100);
  for (const AskedImage& one : asked) {
    Batch batch;
    batch.size = 1;
    batch.fields = {{"box@box", at::tensor({0.f, 0.f, 0.5f, 0.5f}).view({1, 4})},
                    {"label@box", at::full({1}, one.label, at::kLong)},
                    {"area@box", at::full({1}, 2500.f)},
                    {"ignored@box", at::zeros({1}, at::kLong)},
                    {"size", at::full({1, 2}, 100, at::kLong)},
                    {"prompt_class", at::full({1}, one.label, at::kLong)},
                    {"prompt_number", at::full({1}, one.prompt, at::kLong)},
                    {"image_id", at::full({1}, one.id, at::kLong)}};
    batch.offsets.set("box", at::tensor({0, 1}, at::kLong));
    const float middle = one.right ? 0.25f : 0.75f;
    meter.add({{"logits", at::full({1, 1, 1}, one.score)},
               {"boxes", at::tensor({middle, middle, 0.5f, 0.5f}).view({1, 1, 4})}},
              batch);
  }
  return meter.result();
}

TEST(DetectionMeter, TakesTheMeanPerImageOverAClassFirst) {
  // Two images of cats, one of them wrong, and one of a dog, which is right: (1/2 + 1) / 2.
  const Metrics metrics =
      metrics_of({{1, 0, 0, 1.0, true}, {2, 0, 0, 1.0, false}, {3, 1, 0, 1.0, true}});
  EXPECT_NEAR(metrics.at("ap50_per_image"), 0.75, 1e-12);
  EXPECT_NEAR(metrics.at("ap50_per_image_base"), 0.75, 1e-12);
  EXPECT_NEAR(metrics.at("ap50_per_image_cat"), 0.5, 1e-12);
  EXPECT_NEAR(metrics.at("ap50_per_image_dog"), 1, 1e-12);
  // The class as a whole: of two answers with one score the first one is right.
  EXPECT_NE(metrics.at("ap50_cat"), metrics.at("ap50_per_image_cat"));
}

TEST(DetectionMeter, RanksTheAnswersToAnImagesPromptsTogether) {
  // Of two prompts the worse answer has the better score: precision 1/2 at recall 1/2 and nothing
  // beyond. Each prompt by itself would be 0 and 1.
  const Metrics metrics = metrics_of({{1, 0, 0, 2.0, false}, {1, 0, 1, 1.0, true}});
  EXPECT_NEAR(metrics.at("ap50_per_image"), 51 * 0.5 / 101, 1e-12);
  EXPECT_NEAR(metrics.at("ap50"), 0.5, 1e-12);  // of rounds
}

}  // namespace
}  // namespace attnlab::detection_meter_test
