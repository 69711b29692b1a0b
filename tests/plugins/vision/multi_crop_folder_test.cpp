// Crops of pictures in folders: of the whole picture, beside the image as it is evaluated.
#include "framework/data/image/multi_crop.h"
#include "tests/plugins/vision/picture_files.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace attnlab::multi_crop_folder_test {
namespace {

using testing::file_of;
using ::testing::HasSubstr;
using testing::message_of;
using testing::photograph;

class CropsOfFolders : public ::testing::Test {
 protected:
  CropsOfFolders() {
    folder_.write("train/a/1.png", file_of(photograph(40, 50, 1), ".png"));
    folder_.write("train/b/2.png", file_of(photograph(36, 30, 2), ".png"));
    folder_.write("val/a/3.png", file_of(photograph(33, 48, 3), ".png"));
  }
  std::shared_ptr<Dataset> open(const std::string& more = "") const {
    return testing::make_dataset("image_folder",
                                 "{root: " + folder_.path() + ", size: 24" + more + "}");
  }

  testing::TempFolder folder_;
};

TEST_F(CropsOfFolders, AreThoseOfTheWholePicture) {
  const std::string crops =
      "multi_crop: {global_crops: 2, local_crops: 3, local_size: 8, patch_size: 4}";
  const auto dataset = open(", " + crops), plain = open();
  Random random(4), again(4);
  const NamedTensors example = dataset->example(Split::train, 0, &random);
  EXPECT_TRUE(example.at("image").equal(plain->example(Split::train, 0, nullptr).at("image")));
  MultiCropOptions options;
  options.global_crops = 2;
  options.local_crops = 3;
  options.local_size = 8;
  options.patch_size = 4;
  NamedTensors expected;
  MultiCrop(options, dataset->info().field("image"), Filter::bicubic)
      .add(photograph(40, 50, 1), &again, Split::train, 0, expected);
  ASSERT_EQ(expected.size(), 3U);
  for (const auto& [name, tensor] : expected) EXPECT_TRUE(tensor.equal(example.at(name))) << name;
}

TEST_F(CropsOfFolders, StandBesideAnAugmentedImage) {
  const std::string augmentation = ", augmentation: {resized_crop: true, flip: true}";
  const auto both = open(", multi_crop: {global_crops: 2}" + augmentation),
             one = open(augmentation);
  Random random(4), again(4);
  const NamedTensors example = both->example(Split::train, 1, &random);
  EXPECT_TRUE(example.at("image").equal(one->example(Split::train, 1, &again).at("image")));
  EXPECT_EQ(example.at("crop@global").sizes(), at::IntArrayRef({2, 3, 24, 24}));
  EXPECT_EQ(example.find("crop@local"), nullptr);
}

TEST_F(CropsOfFolders, RefuseWhatCannotBe) {
  EXPECT_THAT(message_of<Error>([&] { open(", multi_crop: {global_crops: 2}, corruption: fog"); }),
              HasSubstr("corruption"));
  EXPECT_THAT(message_of<Error>([&] { open(", multi_crop: {global_crops: 2, local_crops: 1}"); }),
              HasSubstr("larger than the images, 24 x 24"));
}

}  // namespace
}  // namespace attnlab::multi_crop_folder_test
