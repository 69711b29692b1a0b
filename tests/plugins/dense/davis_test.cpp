// Videos in the layout of DAVIS: which frames, how they are shown, in which batches, and what is
// refused before anything runs.
#include <filesystem>

#include "tests/plugins/dense/label_sets.h"
#include "tests/support/data_files.h"
#include "tests/support/graph_sets.h"
#include "tests/support/kept_contract.h"
#include "tests/support/plugins.h"

namespace attnlab::davis_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::numbers_png;
using testing::picture_file;
using testing::striped;

class DavisVideos : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::is_installed(Kind::dataset, "davis")) {
      GTEST_SKIP() << "the datasets of pictures are left out of this build";
    }
    write_video("ant", 4, 10, 16, {0, 1, 2});
    write_video("bee", 3, 16, 10, {0, 3});
    write_video("cat", 3, 10, 16, {0, 1});
    folder_.write("ImageSets/2017/val.txt", "ant\nbee\n");
    folder_.write("ImageSets/2017/train.txt", "cat\n");
  }

  static std::string mask(std::size_t height, std::size_t width,
                          const std::vector<std::uint8_t>& numbers) {
    testing::NumbersForm form;
    form.palette = testing::voc_palette();
    return numbers_png(height, width, striped(height, width, numbers), form);
  }
  static std::string frame(const std::string& video, int number) {
    return video + "/0000" + std::to_string(number);
  }
  void write_video(const std::string& name, int frames, std::int64_t height, std::int64_t width,
                   const std::vector<std::uint8_t>& numbers) const {
    for (int i = 0; i < frames; ++i) {
      folder_.write("JPEGImages/480p/" + frame(name, i) + ".jpg",
                    picture_file(height, width, i + int(name.size())));
      folder_.write("Annotations/480p/" + frame(name, i) + ".png",
                    mask(std::size_t(height), std::size_t(width), numbers));
    }
  }
  std::string options(const std::string& more = "") const {
    return "{root: " + folder_.path() + ", short_side: 8, multiple: 4" + more + "}";
  }
  std::shared_ptr<Dataset> open(const std::string& more = "") const {
    return testing::make_dataset("davis", options(more));
  }
  std::string refusal(const std::string& more = "") const {
    return message_of<Error>([&] { open(more); });
  }

  testing::TempFolder folder_;
};

TEST_F(DavisVideos, AreFramesInTheirOrder) {
  const auto dataset = open();
  EXPECT_EQ(dataset->size(Split::test), 7);
  EXPECT_EQ(dataset->size(Split::train), 0);
  EXPECT_EQ(open(", train_set: 2017/train")->size(Split::train), 3);
  std::vector<std::pair<std::int64_t, std::int64_t>> order;
  for (std::int64_t i = 0; i < 7; ++i) {
    const NamedTensors one = dataset->example(Split::test, i, nullptr);
    order.emplace_back(one.at("video").item<std::int64_t>(), one.at("frame").item<std::int64_t>());
  }
  EXPECT_EQ(order, (decltype(order){{0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 0}, {1, 1}, {1, 2}}));
  const NamedTensors first = dataset->example(Split::test, 0, nullptr);
  EXPECT_EQ(first.at("image").sizes(), (at::IntArrayRef{3, 8, 12})) << "16 x 8 / 10 is 12.8";
  EXPECT_EQ(first.at("label_map").sizes(), (at::IntArrayRef{10, 16}));
  EXPECT_TRUE(first.at("size").equal(at::tensor({10, 16}, at::kLong)));
  EXPECT_EQ(first.at("label_map").max().item<std::int64_t>(), 2);
  const NamedTensors upright = dataset->example(Split::test, 5, nullptr);
  EXPECT_TRUE(upright.at("shown").equal(at::tensor({12, 8}, at::kLong)));
  EXPECT_EQ(upright.at("label_map").max().item<std::int64_t>(), 3);
}

TEST_F(DavisVideos, ComeInBatchesOfOneVideo) {
  const auto dataset = open();
  const auto ends = [&](std::int64_t size) {
    return dataset->plan({.split = Split::test, .batch_size = size}).ends;
  };
  EXPECT_EQ(ends(256), (std::vector<std::int64_t>{4, 7}));
  EXPECT_EQ(ends(3), (std::vector<std::int64_t>{3, 4, 7}));
  write_video("ant", 10, 10, 16, {0, 1});
  EXPECT_EQ(open()->plan({.split = Split::test, .batch_size = 256}).ends,
            (std::vector<std::int64_t>{8, 10, 13}))
      << "each frame takes some megabytes";
}

TEST_F(DavisVideos, Of2016HaveOneObject) {
  std::string list;
  for (int i = 0; i < 3; ++i) {
    folder_.write("Annotations/480p/" + frame("cat", i) + ".png",
                  numbers_png(10, 16, striped(10, 16, {0, 255})));
    list += "/JPEGImages/480p/" + frame("cat", i) + ".jpg /Annotations/480p/" + frame("cat", i) +
            ".png\n";
  }
  folder_.write("ImageSets/480p/val.txt", list);
  const auto dataset = open(", test_set: 480p/val");
  EXPECT_EQ(dataset->size(Split::test), 3);
  const Tensor labels = dataset->example(Split::test, 0, nullptr).at("label_map");
  EXPECT_EQ(labels.min().item<std::int64_t>(), 0);
  EXPECT_EQ(labels.max().item<std::int64_t>(), 1);
  folder_.write("Annotations/480p/" + frame("cat", 1) + ".png", mask(10, 16, {0, 1}));
  EXPECT_THAT(refusal(", test_set: 480p/val"),
              AllOf(HasSubstr("cat/00001.png: row 0"), HasSubstr("number 1 is"),
                    HasSubstr("0 and, for the object, 255")));
  folder_.write("ImageSets/480p/val.txt", list + "ant\n");
  EXPECT_THAT(refusal(", test_set: 480p/val"), HasSubstr("val.txt:4: some lines are names"));
}

TEST_F(DavisVideos, HaveNoLabelWhereAMaskHas255) {
  folder_.write("Annotations/480p/" + frame("ant", 1) + ".png",
                numbers_png(10, 16, striped(10, 16, {0, 1, 255})));
  const auto dataset = open();
  EXPECT_EQ(dataset->example(Split::test, 1, nullptr).at("label_map").min().item<std::int64_t>(),
            -1);
}

TEST_F(DavisVideos, KeepTheContract) {
  const auto outcomes = testing::expect_contract_kept("davis", options(", train_set: 2017/train"));
  EXPECT_EQ(outcomes.at("damage"), conformance::Outcome::passed);
}

// --- bad input ----------------------------------------------------------------------------------

TEST_F(DavisVideos, RefuseFramesAndMasksThatAreNotThere) {
  folder_.write("ImageSets/2017/val.txt", "ant\nbat\n");
  EXPECT_THAT(refusal(),
              mentions("val.txt:2:", "no frames", "JPEGImages/480p/bat", "take the line out"));
  folder_.write("ImageSets/2017/val.txt", "ant\n");
  std::filesystem::remove(folder_ / ("Annotations/480p/" + frame("ant", 2) + ".png"));
  EXPECT_THAT(refusal(),
              mentions("ant/00002.jpg: its mask", "ant/00002.png", "test-dev", "first frame"));
  std::filesystem::remove(folder_ / "ImageSets/2017/val.txt");
  EXPECT_THAT(refusal(), HasSubstr("lacks ImageSets/2017/val.txt"));
  folder_.write("ImageSets/2017/val.txt", "ant\nant\n");
  EXPECT_THAT(refusal(), HasSubstr("val.txt:2: "));
  folder_.write("ImageSets/2017/val.txt", "\n");
  EXPECT_THAT(refusal(), HasSubstr("val.txt: names no video"));
}

TEST_F(DavisVideos, RefuseMasksOfAnotherSizeOrWithoutTheirPalette) {
  const std::string third = "Annotations/480p/" + frame("ant", 2) + ".png";
  folder_.write(third, mask(5, 8, {0, 1}));
  EXPECT_THAT(refusal(), AllOf(HasSubstr(third + ": has 5 x 8 pixels"), HasSubstr("10 x 16")));
  std::string png = mask(10, 16, {0, 1});
  const std::size_t palette = png.find("PLTE") - 4;
  folder_.write(third,
                png.substr(0, palette) + png.substr(palette + 12 + testing::voc_palette().size()));
  EXPECT_THAT(refusal(), AllOf(HasSubstr(third), HasSubstr("no palette")));
  folder_.write(third, mask(10, 16, {0, 7}));
  EXPECT_THAT(refusal(), AllOf(HasSubstr(third), HasSubstr("number 7 of a palette of 5")));
  folder_.write(third, png.substr(0, png.size() / 2));
  EXPECT_THAT(refusal(), HasSubstr(third));
}

TEST_F(DavisVideos, RefuseVideosInWhichNothingCanBeMeasured) {
  write_video("bee", 3, 16, 10, {0});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("bee/00000.png: shows no object")));
  write_video("bee", 3, 16, 10, {0, 1});
  folder_.write("JPEGImages/480p/bee/00001.jpg", picture_file(10, 16, 5));
  folder_.write("Annotations/480p/bee/00001.png", mask(10, 16, {0, 1}));
  EXPECT_THAT(refusal(), mentions("bee/00001.jpg: has 10 x 16 pixels", "first frame", "16 x 10"));
  std::filesystem::remove(folder_ / "JPEGImages/480p/bee/00001.jpg");
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("val.txt:2: "), HasSubstr("has 2 frames"), HasSubstr("needs three")));
  folder_.write("ImageSets/2017/val.txt", "ant\n");
  EXPECT_THAT(refusal(", multiple: 16"), HasSubstr("multiple"));
}

}  // namespace
}  // namespace attnlab::davis_test
