// One-shot detection: the loss of what the prompt shows, and precision by base and novel classes.
#include "tests/plugins/detection/asked_boxes.h"

namespace attnlab::one_shot_detection_test {
namespace {

using testing::answered_boxes;
using testing::cats_and_dogs;
using testing::focal;
using testing::make_task;
using testing::two_pets;

/// By image and answer: the logit of "it is what the prompt shows".
const std::vector<double> kLogits = {2, -1, 0.5, 1.5};

NamedTensors outputs() {
  const Tensor logits = at::tensor(kLogits, at::kDouble).view({2, 2, 1});
  return {{"logits", logits},
          {"boxes", answered_boxes()},
          {"layer_prompt_logits", logits.unsqueeze(1)},
          {"layer_boxes", answered_boxes().unsqueeze(1)}};
}

/// A cat is asked for in the first image, a dog in the second one.
Batch cat_then_dog() { return two_pets({0, 1}); }

TEST(OneShotDetection, LossIsOfThePromptsClassAlone) {
  const double alpha = 0.4;
  double classes = 0;
  for (std::size_t i = 0; i < kLogits.size(); ++i) {
    const std::size_t image = i / 2, answer = i % 2;
    classes += focal(kLogits[i], answer == image, alpha);
  }
  // The cat's box is right; the dog's is off by 0.1, and 1 - GIoU is 2/3; two objects.
  const double expected = (1.5 * classes + 3 * 0.1 + 7 * (2.0 / 3)) / 2;
  const auto task = make_task("one_shot_detection", cats_and_dogs(),
                              "{class_weight: 1.5, l1_weight: 3, giou_weight: 7, alpha: 0.4}");
  EXPECT_NEAR(task->loss(outputs(), cat_then_dog()).item<double>(), expected, 1e-9);
  EXPECT_EQ(task->weight(cat_then_dog()), 2);
}

TEST(OneShotDetection, MeasuresBaseAndNovelClassesApart) {
  const auto task = make_task("one_shot_detection", cats_and_dogs());
  const auto meter = task->meter();
  meter->add(outputs(), cat_then_dog());
  const Metrics metrics = meter->result();
  // The cat comes first and is right. Both answers for the dog are wrong: one is the cat's box, the
  // other one has an IoU of 1/3.
  EXPECT_NEAR(metrics.at("ap50_base"), 1, 1e-9);
  EXPECT_NEAR(metrics.at("ap50_novel"), 0, 1e-9);
  EXPECT_NEAR(metrics.at("ap50_per_image"), 0.5, 1e-9);
}

TEST(OneShotDetection, TakesOneColumnOfLogits) {
  NamedTensors two = outputs();
  two.set("logits", two.at("logits").repeat({1, 1, 2}));
  const auto task = make_task("one_shot_detection", cats_and_dogs());
  EXPECT_THAT([&] { task->loss(two, cat_then_dog()); },
              ::testing::ThrowsMessage<ShapeError>(::testing::HasSubstr("[B, Q, 1]")));
}

}  // namespace
}  // namespace attnlab::one_shot_detection_test
