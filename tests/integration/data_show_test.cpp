// attnlab data show: a contact sheet of what a model sees.

#include "tests/integration/workspace.h"
#include "tests/support/data_files.h"

namespace attnlab::testing::data_show_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class DataShow : public Workspace {
 protected:
  DataShow() {
    folder_.write("changed.yaml",
                  "schema: 1\nextends: tiny.yaml\ndataset: {use: idx_images, root: pictures, name: "
                  "x, augmentation: {crop_padding: 4, flip: true}}\n");
    write_idx("train", 12);
    write_idx("t10k", 8);
  }
  /// Images of 28 pixels, each with its own pattern, of the classes 0 to 9 in turn.
  void write_idx(const std::string& split, std::uint32_t count) const {
    std::string pixels, labels;
    for (std::uint32_t i = 0; i < count; ++i) {
      for (std::size_t k = 0; k < 28 * 28; ++k) pixels += static_cast<char>(test_pixel(i, k));
      labels += static_cast<char>(i % 10);
    }
    folder_.write("pictures/" + split + "-images-idx3-ubyte", idx_file({count, 28, 28}, pixels));
    folder_.write("pictures/" + split + "-labels-idx1-ubyte", idx_file({count}, labels));
  }
  /// Width and height of a PNG.
  std::pair<int, int> size_of(const std::string& name) const {
    const std::string file = file_text(at(name));
    EXPECT_THAT(file, StartsWith("\x89PNG"));
    const auto number = [&](std::size_t at) {
      int value = 0;
      for (std::size_t i = 0; i < 4; ++i)
        value = value << 8 | static_cast<unsigned char>(file[at + i]);
      return value;
    };
    return {number(16), number(20)};
  }
};

// A picture of 28 pixels is enlarged three times; 6 pixels lie between pictures, 12 below each.
constexpr int kWide = 3 * 28 + 6, kHigh = 3 * 28 + 12 + 6;

TEST_F(DataShow, LaysImagesOfASplitSideBySide) {
  EXPECT_THAT(must({"data", "show", "changed.yaml"}).out,
              mentions("changed-train.png: ", "12 images", "train split"));
  EXPECT_EQ(size_of("changed-train.png"), std::make_pair(6 + 4 * kWide, 6 + 3 * kHigh));
  must({"data", "show", "changed.yaml", "--split", "test", "--images", "3", "--out", "deep/t.png"});
  EXPECT_EQ(size_of("deep/t.png"), std::make_pair(6 + 2 * kWide, 6 + 2 * kHigh));
}

TEST_F(DataShow, WritesLabelsBelow) {
  const auto sheet = [&](const std::string& name) {
    must({"data", "show", "changed.yaml", "--out", name});
    return file_text(at(name));
  };
  const std::string before = sheet("one.png");
  EXPECT_EQ(sheet("two.png"), before);
  std::string labels;  // the same pictures, of other classes
  for (int i = 0; i < 12; ++i) labels += static_cast<char>((i + 3) % 10);
  folder_.write("pictures/train-labels-idx1-ubyte", idx_file({12}, labels));
  EXPECT_NE(sheet("three.png"), before);
}

TEST_F(DataShow, PutsAugmentedVersionsBesideEachImage) {
  const Words words = {"data",        "show", "changed.yaml", "--images", "2",
                       "--augmented", "3",    "--out"};
  const auto sheet = [&](const std::string& name, const Words& more = {}) {
    Words all = words;
    all.push_back(name);
    all.insert(all.end(), more.begin(), more.end());
    must(all);
    return file_text(at(name));
  };
  const std::string first = sheet("one.png");
  EXPECT_EQ(size_of("one.png"), std::make_pair(6 + 4 * kWide, 6 + 2 * kHigh));
  EXPECT_EQ(sheet("two.png"), first) << "the streams are the run's own";
  EXPECT_NE(sheet("three.png", {"seeds=[7]"}), first);
  EXPECT_NE(sheet("four.png", {"dataset.augmentation.flip=false"}), first);
}

TEST_F(DataShow, RefusesWhatIsNotThere) {
  EXPECT_THAT(refusal({"data", "show", "changed.yaml", "--split", "tests"}),
              mentions("train, validation or test", "found 'tests'"));
  EXPECT_THAT(refusal({"data", "show", "changed.yaml", "--split", "test", "--augmented", "2"}),
              HasSubstr("only the training split"));
  EXPECT_THAT(refusal({"data", "show", "changed.yaml", "--images", "0"}),
              HasSubstr("from 1 to 1000"));
  EXPECT_NE(attnlab({"data", "show", "changed.yaml", "--split", "validation"}).exit_code, 0);
  EXPECT_FALSE(exists("changed-validation.png"));
}

}  // namespace
}  // namespace attnlab::testing::data_show_test
