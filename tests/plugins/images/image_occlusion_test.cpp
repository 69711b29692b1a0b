// Occlusion of patches in the order of an explanation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/eval/explanation.h"
#include "tests/plugins/images/made_pictures.h"
#include "tests/support/data_files.h"

namespace attnlab::image_occlusion_test {
namespace {

using made_pictures::batch_of;
using made_pictures::bright;
using made_pictures::FirstPatch;
using made_pictures::measured;
using made_pictures::pictures;
using ::testing::HasSubstr;
using testing::message_of;

TEST(ImageOcclusion, BlanksPatchesInItsOrder) {
  FirstPatch model;
  DatasetInfo info = pictures();
  info.fields[0].shape = {1, 12, 12};
  Batch batch = batch_of(at::ones({40, 1, 12, 12}));
  for (std::int64_t i = 0; i < 40; ++i)
    batch.fields.at("image")[i][0][11][11] = double(i);  // differ
  batch.fields.set("class", at::ones({40}, at::kLong));
  const Metrics random =
      measured("image_occlusion", "grid: 3, shares: [0, 0.5, 1]", model, batch, info);
  EXPECT_EQ(random.at("clean_accuracy"), 1);
  EXPECT_EQ(random.at("at/0"), 1);
  EXPECT_EQ(random.at("at/1"), 0);
  EXPECT_NEAR(random.at("at/0.5"), 5 / 9.0, 0.25);  // 4 of 9 patches are blanked
  EXPECT_NEAR(random.at("accuracy"), (1 + random.at("at/0.5")) / 3, 1e-12);
  EXPECT_THAT(
      message_of<ConfigError>([&] { measured("image_occlusion", "grid: 5", model, batch, info); }),
      HasSubstr("common divisor"));
  // By salience, on the 2 x 3 patches that the model looks at.
  const auto at = [&](const std::string& order) {
    DatasetInfo wide = pictures();
    Batch all = bright(3);
    return measured("image_occlusion", "grid: 2, shares: [0.3, 0.8], order: " + order, model, all,
                    wide);
  };
  EXPECT_EQ(at("salient").at("at/0.3"), 0);
  EXPECT_EQ(at("least_salient").at("at/0.3"), 1);
  EXPECT_EQ(at("least_salient").at("at/0.8"), 1);
}

}  // namespace
}  // namespace attnlab::image_occlusion_test
