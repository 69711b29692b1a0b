// Object detection: the loss of all objects and COCO's precision, against numbers by hand.
#include "tests/plugins/detection/asked_boxes.h"

namespace attnlab::object_detection_test {
namespace {

using testing::answered_boxes;
using testing::cats_and_dogs;
using testing::focal;
using testing::make_task;
using testing::two_pets;

/// By image, answer and class (cat, dog).
const std::vector<double> kLogits = {2, -3, -4, 1, 0.5, -1, -2, -0.3};

NamedTensors outputs() {
  const Tensor logits = at::tensor(kLogits, at::kDouble).view({2, 2, 2});
  return {{"logits", logits},
          {"boxes", answered_boxes()},
          {"layer_logits", logits.unsqueeze(1)},
          {"layer_boxes", answered_boxes().unsqueeze(1)}};
}

TEST(ObjectDetection, LossIsOfAllObjectsThatCount) {
  const double alpha = 0.4;
  double classes = 0;
  for (std::size_t i = 0; i < kLogits.size(); ++i) {
    const std::size_t answer = i / 2 % 2, label = i % 2;
    classes += focal(kLogits[i], label == answer, alpha);
  }
  // Both dogs' boxes are off by 0.1 along one axis, and 1 - GIoU is 2/3; four objects.
  const double expected = (1.5 * classes + 3 * 2 * 0.1 + 7 * 2 * (2.0 / 3)) / 4;
  const auto task = make_task("object_detection", cats_and_dogs(),
                              "{class_weight: 1.5, l1_weight: 3, giou_weight: 7, alpha: 0.4}");
  EXPECT_NEAR(task->loss(outputs(), two_pets({0, 0})).item<double>(), expected, 1e-9);
  EXPECT_EQ(task->weight(two_pets({0, 0})), 4);
}

TEST(ObjectDetection, MeasuresEachClassOverAllImages) {
  const auto task = make_task("object_detection", cats_and_dogs());
  EXPECT_EQ(task->metrics()[0].name, "ap50");
  const auto meter = task->meter();
  Batch batch = two_pets({0, 0});
  NamedTensors found = outputs();
  // The second image's answer for the dog is its box, and stands below the first one's.
  found.at("boxes")[1][1].copy_(at::tensor({0.5, 0.5, 0.2, 0.2}, at::kDouble));
  meter->add(found, batch);
  const Metrics metrics = meter->result();
  EXPECT_NEAR(metrics.at("ap50_cat"), 1, 1e-9);
  // Wrong, then right: a precision of 1/2 up to a recall of 1/2 (51 of the 101).
  EXPECT_NEAR(metrics.at("ap50_dog"), 51 * 0.5 / 101, 1e-9);
  EXPECT_NEAR(metrics.at("ap50"), (1 + 51 * 0.5 / 101) / 2, 1e-9);
}

TEST(ObjectDetection, TakesAColumnOfLogitsForEachClass) {
  NamedTensors one = outputs();
  one.set("logits", one.at("logits").narrow(2, 0, 1));
  const auto task = make_task("object_detection", cats_and_dogs());
  EXPECT_THAT(
      [&] {
        task->loss(one, two_pets({0, 0}));
      },
      ::testing::ThrowsMessage<ShapeError>(::testing::HasSubstr("[B, Q, 2]")));
}

}  // namespace
}  // namespace attnlab::object_detection_test
