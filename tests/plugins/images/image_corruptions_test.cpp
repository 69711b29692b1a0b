// Errors under corruptions, and logits that are not numbers.
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/eval/explanation.h"
#include "tests/plugins/images/made_pictures.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace attnlab::image_corruptions_test {
namespace {

using made_pictures::batch_of;
using made_pictures::bright;
using made_pictures::measured;
using made_pictures::pictures;
using made_pictures::record;
using ::testing::HasSubstr;
using testing::message_of;

/// Class 1 where an image's mean is above the threshold.
class Brightness final : public Model {
 public:
  NamedTensors forward(const Batch& batch, ForwardPass&) override {
    const Tensor mean = batch.fields.at("image").mean({1, 2, 3}).view({-1, 1});
    return {{"logits", at::cat({at::zeros_like(mean), mean, at::full_like(mean, -9)}, 1)}};
  }
};

TEST(ImageCorruptions, WeighErrorsByThoseOfAlexNet) {
  Brightness model;
  DatasetInfo info = pictures();
  EXPECT_THAT(message_of<DataError>([&] { testing::make_task("image_corruptions", info, "{}"); }),
              HasSubstr("how its images are normalised"));
  info.fields[0].mean = {0.5};
  info.fields[0].deviation = {0.25};
  // Of levels a little below the middle: brightness makes them class 1, contrast keeps class 0.
  Batch batch = batch_of(((at::full({4, 1, 8, 12}, 120 / 255.0) - 0.5) / 0.25));
  batch.fields.set("class", at::zeros({4}, at::kLong));
  const Metrics found =
      measured("image_corruptions", "corruptions: [brightness, contrast], severities: [1, 5]",
               model, batch, info);
  EXPECT_EQ(found.at("error/brightness"), 1);
  EXPECT_EQ(found.at("error/contrast"), 0);
  EXPECT_NEAR(found.at("error"), 0.5, 1e-12);
  EXPECT_NEAR(found.at("accuracy"), 0.5, 1e-12);
  EXPECT_NEAR(found.at("error_over_alexnet"), 0.5 / 0.564592, 1e-9);
  EXPECT_EQ(found.count("mce"), 0U) << "mCE is of fifteen corruptions at five severities";
  const Metrics extra =
      measured("image_corruptions", "corruptions: [gaussian_blur]", model, batch, info);
  EXPECT_EQ(extra.count("mce"), 0U);
  EXPECT_EQ(extra.count("error_over_alexnet"), 0U) << "AlexNet's error is not published";
  EXPECT_EQ(extra.at("error"), 0);
}

TEST(ImageCorruptions, HaveAnMceOfTheWholeSetAlone) {
  DatasetInfo info = pictures();
  info.fields[0].mean = {0.5};
  info.fields[0].deviation = {0.25};
  const auto third = [&](const std::string& options) {
    return testing::make_task("image_corruptions", info, "{" + options + "}")->metrics()[2].name;
  };
  EXPECT_EQ(third(""), "mce");
  EXPECT_EQ(third("severities: [5, 4, 3, 2, 1]"), "mce");
  EXPECT_EQ(third("severities: [1, 2, 3, 4]"), "error_over_alexnet");
  EXPECT_EQ(third("corruptions: [fog, snow]"), "error_over_alexnet");
  EXPECT_EQ(third("corruptions: [fog, spatter]"), "error/fog");
}

// Errors are all 1 of a model that is always wrong, so mCE is the mean of one over AlexNet's
// errors: those of Hendrycks & Dietterich, table 1's caption and code, read anew.
TEST(ImageCorruptions, HaveTheMceOfAlexNetsErrors) {
  constexpr double kAlexNet[] = {.886428, .894468, .922640, .819880, .826268,
                                 .785948, .798360, .866816, .826572, .819324,
                                 .564592, .853204, .717840, .646056, .606500};
  double expected = 0;
  for (const double error : kAlexNet) expected += 1 / error / 15;
  testing::TempFolder folder;
  for (int i = 1; i <= 5; ++i) {
    folder.write("frost" + std::to_string(i) + ".ppm", "P6\n20 20\n255\n" + std::string(1200, 'x'));
  }
  Brightness model;
  DatasetInfo info = pictures();
  info.fields[0].mean = {0.5};
  info.fields[0].deviation = {0.25};
  Batch batch = bright(2);
  batch.fields.set("class", at::full({2}, 2, at::kLong));
  const Metrics found =
      measured("image_corruptions", "constants: imagenet, frost: '" + folder.path() + "'", model,
               batch, info);
  EXPECT_EQ(found.at("error"), 1);
  EXPECT_NEAR(found.at("mce"), expected, 1e-9);
}

/// No logit is a number.
class NoNumbers final : public Model {
 public:
  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    if (pass.trace != nullptr) {
      const at::AutoGradMode on(true);
      const Tensor weights = at::full({batch.size, 1, 7, 7}, 1 / 7.0).set_requires_grad(true);
      record(*pass.trace, weights, at::zeros_like(weights));
      return {{"logits", weights.sum() * at::full({batch.size, 3}, NAN)}};
    }
    return {{"logits", at::full({batch.size, 3}, NAN)}};
  }
};

// argmax takes the first of what is not a number: class 0, which would be right here.
TEST(ImageTasks, CountLogitsThatAreNoNumbersAsWrong) {
  NoNumbers model;
  DatasetInfo info = pictures();
  info.fields[0].mean = {0.5};
  info.fields[0].deviation = {0.25};
  Batch batch = bright(3);
  batch.fields.set("class", at::zeros({3}, at::kLong));
  EXPECT_EQ(
      measured("image_corruptions", "corruptions: [contrast]", model, batch, info).at("error"), 1);
  const Metrics occluded =
      measured("image_occlusion", "grid: 4, shares: [0.5]", model, batch, info);
  EXPECT_EQ(occluded.at("clean_accuracy"), 0);
  EXPECT_EQ(occluded.at("at/0.5"), 0);
  EXPECT_EQ(measured("image_explanation", "", model, batch, info).at("explained"), 0);
}

}  // namespace
}  // namespace attnlab::image_corruptions_test
