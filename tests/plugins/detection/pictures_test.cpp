// Pictures of one's own: any files, seen as a detector sees those of its dataset.
#include "framework/data/formats/files.h"
#include "framework/data/image/png.h"
#include "tests/plugins/vision/picture_files.h"
#include "tests/support/data_files.h"
#include "tests/support/kept_contract.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace attnlab::pictures_test {
namespace {

using ::testing::HasSubstr;
using testing::make_dataset;

class OwnPictures : public ::testing::Test {
 protected:
  OwnPictures() {
    folder_.write("wide.png", png_of(testing::photograph(20, 40)));
    folder_.write("high.jpg", testing::jpeg_of(testing::photograph(48, 32, 1)));
  }
  std::string options(const std::string& more) const {
    return "{files: [" + folder_ / "wide.png" + ", " + folder_ / "high.jpg" + "], " + more + "}";
  }
  testing::TempFolder folder_;
};

TEST_F(OwnPictures, AreSeenWholeAndWithoutBoxes) {
  const auto dataset =
      make_dataset("pictures", options("size: 40, mean: [0, 0, 0], std: [1, 1, 1]"));
  ASSERT_EQ(dataset->size(Split::test), 2);
  const NamedTensors example = dataset->example(Split::test, 0, nullptr);
  EXPECT_EQ(example.at("box@box").size(0), 0);
  EXPECT_EQ(example.find("prompt"), nullptr);
  const Pixels stored = testing::photograph(20, 40);
  const Tensor image = example.at("image").mul(255).round().to(at::kByte).permute({1, 2, 0});
  const Tensor bytes = image.contiguous();
  ASSERT_EQ(bytes.sizes(), at::IntArrayRef({20, 40, 3}));
  EXPECT_TRUE(std::equal(stored.bytes.begin(), stored.bytes.end(), bytes.data_ptr<std::uint8_t>()));
  const NamedTensors high = dataset->example(Split::test, 1, nullptr);
  EXPECT_EQ(high.at("image").size(1), 40);
  EXPECT_EQ(high.at("size")[0].item<std::int64_t>(), 48);
}

TEST_F(OwnPictures, HaveAPromptWhereOneIsNamed) {
  const auto dataset = make_dataset(
      "pictures", options("size: 40, prompt_size: 16, prompt: " + folder_ / "wide.png"));
  for (const std::int64_t index : {0, 1}) {
    EXPECT_EQ(dataset->example(Split::test, index, nullptr).at("prompt").sizes(),
              at::IntArrayRef({3, 16, 16}));
  }
}

TEST_F(OwnPictures, AreFoundInTheFolderWhereTheirRunWasBegun) {
  look_for_data_in(folder_.path());
  std::shared_ptr<Dataset> dataset;
  EXPECT_NO_THROW(dataset = make_dataset("pictures", "{files: [wide.png], prompt: high.jpg}"));
  look_for_data_in("");
  ASSERT_NE(dataset, nullptr);
  const NamedTensors example = dataset->example(Split::test, 0, nullptr);
  EXPECT_EQ(example.at("size")[0].item<std::int64_t>(), 20);
  EXPECT_NE(example.find("prompt"), nullptr);
  EXPECT_THAT(testing::message_of<Error>([] { make_dataset("pictures", "{files: [wide.png]}"); }),
              HasSubstr("wide.png"));
}

TEST_F(OwnPictures, KeepTheContract) {
  testing::expect_contract_kept("pictures", options("prompt: " + folder_ / "high.jpg"));
}

TEST_F(OwnPictures, RefuseWhatIsNone) {
  EXPECT_THAT(testing::message_of<Error>([] { make_dataset("pictures"); }),
              HasSubstr("names no picture"));
  folder_.write("text.png", "no picture");
  EXPECT_THAT(testing::message_of<Error>(
                  [&] { make_dataset("pictures", "{files: [" + folder_ / "text.png" + "]}"); }),
              HasSubstr("text.png: is not an image"));
}

}  // namespace
}  // namespace attnlab::pictures_test
