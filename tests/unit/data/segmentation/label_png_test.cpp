// Label maps from PNG files: numbers of all depths and filters, what they mean, what is refused.
#include "framework/data/image/png.h"
#include "framework/data/segmentation/label_rule.h"
#include "tests/support/data_files.h"
#include "tests/support/label_files.h"
#include "tests/support/temp_folder.h"

namespace attnlab::label_png_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using testing::message_of;
using testing::numbers_png;
using testing::NumbersForm;

class LabelPng : public ::testing::Test {
 protected:
  LabelPixels read(const std::string& bytes) const {
    return read_label_png(folder_.write("labels.png", bytes));
  }
  std::string refusal(const std::string& bytes) const {
    return message_of<DataError>([&] { read(bytes); });
  }
  /// Two classes and a number without label.
  static LabelRule rule() {
    LabelRule rule = LabelRule::refusing();
    rule.class_names = {"road", "sky"};
    rule.classes[0] = 0;
    rule.classes[1] = 1;
    rule.classes[9] = kUnlabelled;
    rule.numbers = "0, 1 and 9";
    return rule;
  }
  LabelMap labels(const std::string& bytes, const LabelRule& rule) const {
    return labels_of(read(bytes), rule, "labels.png");
  }

  testing::TempFolder folder_;
};

/// Numbers below 2^bits, another one for each pixel and neighbour.
std::vector<std::uint8_t> numbers(std::size_t count, int bits) {
  std::vector<std::uint8_t> all(count);
  for (std::size_t i = 0; i < count; ++i) {
    all[i] = static_cast<std::uint8_t>((i * i / 3 + 5 * i) % (std::size_t{1} << bits));
  }
  return all;
}

TEST_F(LabelPng, HoldsNumbersOfAllDepthsByAllFilters) {
  constexpr std::size_t kHeight = 11, kWidth = 13;
  for (const int bits : {1, 2, 4, 8}) {
    for (const bool filtered : {false, true}) {
      for (const bool indexed : {false, true}) {
        NumbersForm form{bits, {}, filtered};
        if (indexed) form.palette.assign(3 * (std::size_t{1} << bits), 7);
        const auto given = numbers(kHeight * kWidth, bits);
        const LabelPixels pixels = read(numbers_png(kHeight, kWidth, given, form));
        EXPECT_EQ(pixels.height, std::int64_t(kHeight));
        EXPECT_EQ(pixels.width, std::int64_t(kWidth));
        EXPECT_FALSE(pixels.colours);
        EXPECT_THAT(pixels.bytes, ElementsAreArray(given)) << bits << filtered << indexed;
        EXPECT_EQ(pixels.palette.size(), form.palette.size());
      }
    }
  }
}

TEST_F(LabelPng, HoldsColoursAsTheyAre) {
  const auto given = numbers(3 * 6 * 5, 8);
  NumbersForm form;
  form.coloured = form.filtered = true;
  const LabelPixels pixels = read(numbers_png(6, 5, given, form));
  EXPECT_TRUE(pixels.colours);
  EXPECT_THAT(pixels.bytes, ElementsAreArray(given));
}

TEST_F(LabelPng, IsReadAsWrittenElsewhereInThisProject) {
  Pixels image(7, 9, 1);
  image.bytes = numbers(63, 8);
  EXPECT_THAT(read(png_of(image)).bytes, ElementsAreArray(image.bytes));
}

TEST_F(LabelPng, RefusesWhatIsNoneOrDamaged) {
  const std::string sound = numbers_png(6, 5, numbers(30, 8));
  EXPECT_THAT(refusal("a text"), AllOf(HasSubstr("labels.png: is not a PNG"), HasSubstr("save")));
  for (std::size_t cut = 8; cut < sound.size(); cut += 7) {
    EXPECT_THAT(refusal(sound.substr(0, cut)), HasSubstr("fetch the file again")) << cut;
  }
  for (std::size_t at = 8; at < sound.size(); ++at) {
    std::string flipped = sound;
    flipped[at] = char(flipped[at] ^ 4);
    EXPECT_THAT(refusal(flipped), HasSubstr("labels.png: ")) << at;
  }
  EXPECT_THAT(message_of<FileError>([&] { read_label_png(folder_ / "none.png"); }),
              HasSubstr("none.png"));
}

TEST_F(LabelPng, RefusesFormsThatHoldNoNumbers) {
  NumbersForm form;
  form.interlaced = true;
  EXPECT_THAT(refusal(numbers_png(2, 2, {0, 1, 2, 3}, form)),
              HasSubstr("interlaced; save it without"));
  std::string deep = numbers_png(1, 1, {0});
  // The header alone is looked at before the data are: 16 bits, then with transparency.
  const std::string end = deep.substr(8 + 25);
  const std::string start = deep.substr(0, 8);
  const auto header = [&](int bits, int kind) {
    const std::string sides("\0\0\0\1\0\0\0\1", 8);
    return testing::png_chunk("IHDR", sides + char(bits) + char(kind) + std::string(3, '\0'));
  };
  EXPECT_THAT(refusal(start + header(16, 0) + end),
              AllOf(HasSubstr("16 bits"), HasSubstr("8 bits")));
  EXPECT_THAT(refusal(start + header(8, 6) + end), HasSubstr("transparency; save"));
  EXPECT_THAT(refusal(start + header(8, 3) + end), HasSubstr("has no palette"));
}

TEST_F(LabelPng, RefusesANumberBeyondThePalette) {
  const NumbersForm form{8, {0, 0, 0, 9, 9, 9}};
  EXPECT_THAT(refusal(numbers_png(2, 3, {0, 1, 0, 1, 2, 0}, form)),
              mentions("labels.png:", "row 1, column 1", "number 2", "palette of 2"));
}

TEST_F(LabelPng, ClaimsNoMoreMemoryThanItsDataCanFill) {
  std::string huge = numbers_png(1, 1, {0});
  const std::string sides("\0\0\x3f\xff\0\0\x3f\xff", 8);
  huge = huge.substr(0, 8) + testing::png_chunk("IHDR", sides + std::string("\x08\0\0\0\0", 5)) +
         huge.substr(8 + 25);
  EXPECT_THAT(refusal(huge), HasSubstr("too few data"));
}

TEST_F(LabelPng, MeansClassesByItsNumbers) {
  const LabelMap map = labels(numbers_png(2, 3, {0, 1, 9, 1, 1, 0}), rule());
  EXPECT_THAT(map.classes, ElementsAreArray(std::vector<std::int16_t>{0, 1, -1, 1, 1, 0}));
  EXPECT_EQ(map.row(1)[2], 0);
}

TEST_F(LabelPng, NamesThePixelOfANumberThatIsNoClass) {
  EXPECT_THAT(message_of<DataError>([&] {
                labels(numbers_png(2, 3, {0, 1, 9, 1, 5, 0}), rule());
              }),
              AllOf(HasSubstr("labels.png: row 1, column 1"), HasSubstr("the number 5"),
                    HasSubstr("0, 1 and 9")));
}

TEST_F(LabelPng, MayBeSavedAsColours) {
  LabelRule coloured = rule();
  NumbersForm form;
  form.coloured = true;
  const std::string picture = numbers_png(1, 2, {10, 20, 30, 0, 0, 255}, form);
  EXPECT_THAT(message_of<DataError>([&] { labels(picture, coloured); }),
              AllOf(HasSubstr("is a picture of colours"), HasSubstr("take the file")));
  coloured.colours = {{10 << 16 | 20 << 8 | 30, 0}, {255, 1}};
  EXPECT_THAT(labels(picture, coloured).classes, ElementsAreArray(std::vector<std::int16_t>{0, 1}));
  coloured.colours.erase(255);
  EXPECT_THAT(message_of<DataError>([&] { labels(picture, coloured); }),
              AllOf(HasSubstr("row 0, column 1"), HasSubstr("(0, 0, 255) belongs to no class")));
}

TEST_F(LabelPng, RefusesAPaletteThatNumbersItsColoursAnew) {
  LabelRule coloured = rule();
  coloured.colours = {{0, 0}, {128 << 16, 1}, {224 << 16 | 224 << 8 | 192, kUnlabelled}};
  NumbersForm form;
  form.palette = {0, 0, 0, 128, 0, 0};
  EXPECT_THAT(labels(numbers_png(1, 2, {0, 1}, form), coloured).classes,
              ElementsAreArray(std::vector<std::int16_t>{0, 1}));
  form.palette = {128, 0, 0, 0, 0, 0};  // the other way round
  EXPECT_THAT(message_of<DataError>([&] {
                labels(numbers_png(1, 2, {0, 0}, form), coloured);
              }),
              AllOf(HasSubstr("labels.png"), HasSubstr("number 0"), HasSubstr("class 'sky'"),
                    HasSubstr("dataset's palette")));
  form.palette = {0, 0, 0, 3, 3, 3};  // colours of nobody say nothing
  EXPECT_NO_THROW(labels(numbers_png(1, 2, {0, 1}, form), coloured));
}

}  // namespace
}  // namespace attnlab::label_png_test
