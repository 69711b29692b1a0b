// What is measured of explanations of images.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/eval/explanation.h"
#include "tests/plugins/images/made_pictures.h"

namespace attnlab::image_explanation_test {
namespace {

using made_pictures::bright;
using made_pictures::FirstPatch;
using made_pictures::measured;
using made_pictures::pictures;

TEST(ImageExplanation, NamesWhatTheAnswerRestsOn) {
  FirstPatch model;
  const Metrics found = measured("image_explanation", "", model, bright(2), pictures());
  EXPECT_EQ(found.at("explained"), 1);
  // 16 of 96 pixels matter. In the worst order they go within the first fifth.
  EXPECT_LT(found.at("morf"), 0.5);
  EXPECT_GT(found.at("lerf"), 0.85);
  EXPECT_NEAR(found.at("abpc"), found.at("lerf") - found.at("morf"), 1e-12);
}

TEST(ImageExplanation, ComparesWithBoxes) {
  FirstPatch model;
  Batch batch = bright(2);
  // The map is 1 on the first patch, 0 elsewhere; bilinearly enlarged it is above 1/2 on 4 x 4
  // pixels, which published code fills one pixel further.
  batch.fields.set("boxes@box", at::tensor({0.f, 0.f, 4.f, 4.f, 0.f, 0.f, 9.f, 4.f}).view({2, 4}));
  batch.offsets.set("box", at::tensor({0, 1, 2}, at::kLong));
  const Metrics found =
      measured("image_explanation", "perturb: false", model, batch, pictures(/*boxes=*/true));
  EXPECT_NEAR(found.at("iou"), (1 + 0.5) / 2, 1e-5);
  EXPECT_NEAR(found.at("dice"), (1 + 2 * 25.0 / 75) / 2, 1e-5);
  EXPECT_NEAR(found.at("pixel_accuracy"), (1 + (96 - 25.0) / 96) / 2, 1e-5);
  // A box far beyond the image ends with it: it is all of it.
  batch.fields.set("boxes@box",
                   at::tensor({-1e30f, 0.f, 1e30f, 1e30f, 0.f, 0.f, 4.f, 4.f}).view({2, 4}));
  EXPECT_NEAR(
      measured("image_explanation", "perturb: false", model, batch, pictures(true)).at("iou"),
      (25.0 / 96 + 1) / 2, 1e-5);
  batch.fields.set("boxes@box", at::tensor({0.f, 0.f, 4.f, 4.f, 0.f, 0.f, 9.f, 4.f}).view({2, 4}));
  // An image that is classified wrongly does not count.
  batch.fields.set("class", at::tensor({1, 0}, at::kLong));
  const Metrics one =
      measured("image_explanation", "perturb: false", model, batch, pictures(/*boxes=*/true));
  EXPECT_NEAR(one.at("iou"), 1, 1e-5);
  EXPECT_EQ(one.at("explained"), 0.5);
}

}  // namespace
}  // namespace attnlab::image_explanation_test
