// What training and evaluation show of a picture and of its label map, and its colours.
#include "framework/data/segmentation/label_framing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "framework/data/segmentation/labelled_pictures.h"
#include "framework/data/segmentation/photometric.h"
#include "tests/support/data_files.h"

namespace attnlab::label_framing_test {
namespace {

using attnlab::testing::mentions;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using testing::message_of;

LabelMap map_of(std::int64_t height, std::int64_t width, std::vector<std::int16_t> classes) {
  LabelMap map(height, width);
  map.classes = std::move(classes);
  return map;
}

TEST(LabelMaps, AreResizedByTheNearestPixel) {
  const LabelMap map = map_of(2, 3, {0, 1, 2, 3, 4, 5});
  EXPECT_THAT(resized_labels(map, {2, 3}).classes, ElementsAreArray(map.classes));
  EXPECT_THAT(resized_labels(map, {4, 6}).classes,
              ElementsAreArray(std::vector<std::int16_t>{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2,
                                                         3, 3, 4, 4, 5, 5, 3, 3, 4, 4, 5, 5}));
  EXPECT_THAT(resized_labels(map, {1, 1}).classes, ElementsAreArray({4})) << "the middle's";
  for (const PictureSize size : {PictureSize{5, 7}, PictureSize{3, 2}}) {
    const LabelMap whole = resized_labels(map, size);
    for (std::int64_t y = 0; y < size.height; ++y) {
      for (std::int64_t x = 0; x < size.width; ++x) {
        const auto row = static_cast<std::int64_t>((double(y) + 0.5) * 2 / double(size.height));
        const auto column = static_cast<std::int64_t>((double(x) + 0.5) * 3 / double(size.width));
        EXPECT_EQ(whole.row(y)[x], map.row(row)[column]) << y << " " << x;
      }
    }
    const LabelMap part = resized_labels(map, size, {1, 1, 2, 1});
    EXPECT_EQ(part.row(0)[0], whole.row(1)[1]);
    EXPECT_EQ(part.row(1)[0], whole.row(2)[1]);
  }
}

TEST(ShownSizes, AreThoseOfMmsegmentation) {
  LabelFramingOptions options;
  EXPECT_EQ(shown_size({360, 480}, options), (PictureSize{360, 480}));
  EXPECT_EQ(shown_size({360, 480}, options, 0.5), (PictureSize{180, 240}));
  options.short_side = 512;
  options.long_side = 2048;
  EXPECT_EQ(shown_size({300, 400}, options), (PictureSize{512, 683}));
  EXPECT_EQ(shown_size({100, 1000}, options), (PictureSize{205, 2048})) << "the longer side's";
  // int(2048 * 0.75) and int(512 * 0.75): 1536 and 384.
  EXPECT_EQ(shown_size({300, 400}, options, 0.75), (PictureSize{384, 512}));
  options.long_side = 0;
  EXPECT_EQ(shown_size({100, 1000}, options), (PictureSize{512, 5120}));
}

TEST(LabelFraming, RefusesOptionsThatContradictEachOther) {
  const auto refusal = [](const std::function<void(LabelFramingOptions&)>& change) {
    LabelFramingOptions options;
    options.crop = 8;
    change(options);
    return message_of<OptionError>([&] { check(options); });
  };
  EXPECT_THAT(refusal([](auto& o) { o.ratio = {2, 1}; }), HasSubstr("ratio: needs two numbers"));
  EXPECT_THAT(refusal([](auto& o) { o.ratio = {1}; }), HasSubstr("ratio: needs two numbers"));
  EXPECT_THAT(refusal([](auto& o) {
                o.short_side = 512;
                o.long_side = 100;
              }),
              mentions("long_side:", "below short_side"));
  EXPECT_THAT(refusal([](auto& o) {
                o.crop = 0;
                o.ratio = {0.5, 2};
              }),
              HasSubstr("crop: is 0, and `ratio` makes"));
}

TEST(LabelFraming, CropsWithinWhatIsShown) {
  LabelFramingOptions options;
  options.crop = 8;
  options.ratio = {0.5, 2};
  options.class_share = 1;
  Random random(3);
  LabelMap labels(12, 20);
  std::map<std::int64_t, int> heights;
  for (int i = 0; i < 200; ++i) {
    const LabelFraming framing = drawn_framing(labels, options, random);
    EXPECT_GE(framing.whole.height, 6);
    EXPECT_LE(framing.whole.height, 24);
    EXPECT_EQ(framing.part.height, std::min<std::int64_t>(8, framing.whole.height));
    EXPECT_EQ(framing.part.width, 8);
    EXPECT_GE(framing.part.top, 0);
    EXPECT_LE(framing.part.top + framing.part.height, framing.whole.height);
    EXPECT_LE(framing.part.left + framing.part.width, framing.whole.width);
    EXPECT_FALSE(framing.flip);
    EXPECT_EQ(framing.labels.height, framing.part.height);
    ++heights[framing.whole.height];
  }
  EXPECT_GT(heights.size(), 10U) << "sizes are drawn";
}

/// A picture whose left part, `wide` of 40 columns, is of one class and whose right part of two.
LabelMap mostly_one(std::int64_t wide) {
  LabelMap map(8, 40);
  for (std::int64_t y = 0; y < 8; ++y) {
    for (std::int64_t x = 0; x < 40; ++x) {
      map.row(y)[x] = x < wide ? std::int16_t{0} : static_cast<std::int16_t>(1 + y % 2);
    }
  }
  return map;
}

double largest_share(const LabelMap& labels) {
  std::map<std::int16_t, double> counts;
  double all = 0;
  for (const std::int16_t label : labels.classes) {
    if (label < 0) continue;
    ++counts[label];
    ++all;
  }
  double most = 0;
  for (const auto& [label, count] : counts) most = std::max(most, count);
  return all == 0 ? 0 : most / all;
}

TEST(LabelFraming, TakesCropsOfSeveralClassesWhereThereAreSome) {
  LabelFramingOptions options;
  options.crop = 8;
  const LabelMap labels = mostly_one(24);
  const auto share_of_mixed = [&](double share) {
    options.class_share = share;
    Random random(5);
    int mixed = 0;
    for (int i = 0; i < 300; ++i) {
      mixed += largest_share(drawn_framing(labels, options, random).labels) < 0.75 ? 1 : 0;
    }
    return mixed / 300.0;
  };
  const double any = share_of_mixed(1), asked = share_of_mixed(0.75);
  EXPECT_GT(any, 0.2);
  EXPECT_LT(any, 0.8);
  EXPECT_NEAR(asked, 1 - std::pow(1 - any, 11), 0.02) << "ten are looked at, the eleventh is taken";
}

TEST(LabelFraming, GivesUpWhereAllIsOfOneClassOrNone) {
  LabelFramingOptions options;
  options.crop = 8;
  Random random(1);
  EXPECT_EQ(largest_share(drawn_framing(mostly_one(40), options, random).labels), 1);
  EXPECT_EQ(largest_share(drawn_framing(LabelMap(20, 20), options, random).labels), 0);
}

/// One picture whose red is the row, whose green is the column and whose class is both.
class Numbered final : public LabelledSet {
 public:
  Numbered(std::int64_t height, std::int64_t width) : height_(height), width_(width) {}
  std::int64_t size() const override { return 1; }
  PictureSize size_of(std::int64_t) const override { return {height_, width_}; }
  std::string name_of(std::int64_t) const override { return "numbered"; }
  Pixels picture(std::int64_t) const override {
    Pixels pixels(height_, width_, 3);
    for (std::int64_t y = 0; y < height_; ++y) {
      for (std::int64_t x = 0; x < width_; ++x) {
        pixels.row(y)[3 * x] = static_cast<std::uint8_t>(y);
        pixels.row(y)[3 * x + 1] = static_cast<std::uint8_t>(x);
      }
    }
    return pixels;
  }
  LabelMap labels(std::int64_t) const override {
    LabelMap map(height_, width_);
    for (std::int64_t y = 0; y < height_; ++y) {
      for (std::int64_t x = 0; x < width_; ++x) {
        map.row(y)[x] = static_cast<std::int16_t>(100 * y + x);
      }
    }
    return map;
  }

 private:
  std::int64_t height_, width_;
};

LabelledPictures numbered(LabelledPictureOptions options, std::int64_t height, std::int64_t width) {
  options.mean = {0, 0, 0};
  options.deviation = {1, 1, 1};
  LabelledSplits splits;
  splits.name = "numbered";
  splits.class_names.assign(10000, "class");
  splits.train = splits.test = std::make_shared<Numbered>(height, width);
  return LabelledPictures(std::move(splits), options);
}

/// Whether each labelled pixel's class is that of the row and column that its colour says.
void expect_together(const NamedTensors& example, std::int64_t least_labelled) {
  const Tensor bytes = example.at("image").mul(255).round().to(at::kLong);
  const Tensor expected = bytes[0] * 100 + bytes[1];
  const Tensor& labels = example.at("label_map");
  const Tensor there = labels.ge(0);
  EXPECT_GE(there.sum().item<std::int64_t>(), least_labelled);
  EXPECT_TRUE(labels.masked_select(there).equal(expected.masked_select(there)));
  EXPECT_EQ(example.at("image").masked_select(there.logical_not()).abs().sum().item<double>(), 0);
}

TEST(LabelledPictures, MovePictureAndLabelsTogether) {
  LabelledPictureOptions options;
  options.crop = 12;
  options.flip = true;
  const LabelledPictures pictures = numbered(options, 20, 30);
  bool mirrored = false, straight = false;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    const NamedTensors example = pictures.example(Split::train, 0, &random);
    ASSERT_EQ(example.at("image").sizes(), (at::IntArrayRef{3, 12, 12}));
    ASSERT_EQ(example.at("label_map").sizes(), (at::IntArrayRef{12, 12}));
    expect_together(example, 144);
    const Tensor row = example.at("label_map")[0];
    (row[0].item<std::int64_t>() < row[1].item<std::int64_t>() ? straight : mirrored) = true;
  }
  EXPECT_TRUE(mirrored);
  EXPECT_TRUE(straight);
}

TEST(LabelledPictures, PadWhatIsSmallerThanTheCrop) {
  LabelledPictureOptions options;
  options.crop = 12;
  options.ratio = {0.5, 1};
  const LabelledPictures pictures = numbered(options, 12, 12);
  bool padded = false;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const NamedTensors example = pictures.example(Split::train, 0, &random);
    const Tensor& labels = example.at("label_map");
    ASSERT_EQ(labels.sizes(), (at::IntArrayRef{12, 12}));
    padded |= labels.lt(0).any().item<bool>();
    EXPECT_EQ(labels[0][0].item<std::int64_t>() % 100, labels[0][0].item<std::int64_t>() / 100);
    const Tensor outside = labels.lt(0);
    EXPECT_EQ(example.at("image").masked_select(outside).abs().sum().item<double>(), 0);
    // What is padded lies below and on the right.
    EXPECT_TRUE(outside.to(at::kLong).diff(1, 0).ge(0).all().item<bool>());
    EXPECT_TRUE(outside.to(at::kLong).diff(1, 1).ge(0).all().item<bool>());
  }
  EXPECT_TRUE(padded);
}

TEST(LabelledPictures, AreEvaluatedWholeBesideLabelsOfTheirOwnSize) {
  LabelledPictureOptions options;
  options.short_side = 10;
  const LabelledPictures pictures = numbered(options, 20, 30);
  const NamedTensors example = pictures.example(Split::test, 0, nullptr);
  EXPECT_EQ(example.at("image").sizes(), (at::IntArrayRef{3, 10, 15}));
  EXPECT_EQ(example.at("label_map").sizes(), (at::IntArrayRef{20, 30}));
  EXPECT_TRUE(example.at("size").equal(at::tensor({20, 30}, at::kLong)));
  EXPECT_TRUE(example.at("shown").equal(at::tensor({10, 15}, at::kLong)));
  EXPECT_EQ(example.at("label_map")[3][7].item<std::int64_t>(), 307);
}

TEST(LabelledPictures, SayOneSizeWhereThereIsOne) {
  LabelledPictureOptions options;
  const auto shapes = [&](std::int64_t height, std::int64_t width) {
    const LabelledPictures pictures = numbered(options, height, width);
    return std::pair{pictures.info().field("image").shape,
                     pictures.info().field("label_map").shape};
  };
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(shapes(16, 16), std::pair(Shape{3, 16, 16}, Shape{16, 16}));
  options.crop = 16;
  EXPECT_EQ(shapes(16, 16), std::pair(Shape{3, 16, 16}, Shape{16, 16}));
  EXPECT_EQ(shapes(16, 24), std::pair(Shape{3, -1, -1}, Shape{-1, -1}));
  options.short_side = 16;
  EXPECT_EQ(shapes(32, 32), std::pair(Shape{3, 16, 16}, Shape{-1, -1})) << "labels stay as stored";
}

TEST(LabelledPictures, RefuseACropThatNoPictureFills) {
  LabelledPictureOptions options;
  options.crop = 32;
  EXPECT_THAT(message_of<OptionError>([&] { numbered(options, 30, 40); }),
              mentions("crop:", "32 pixels", "numbered", "30 x 40 at most", "take at most 30"));
  options.ratio = {0.5, 1.1};
  EXPECT_NO_THROW(numbered(options, 30, 40)) << "33 pixels at the largest ratio";
}

TEST(LabelledPictures, AreCorruptedWhereAskedAndTheirLabelsAreNot) {
  LabelledPictureOptions options;
  const LabelledPictures clean = numbered(options, 20, 24);
  options.corruption.corruption = "contrast";
  const LabelledPictures corrupted = numbered(options, 20, 24);
  const auto example = [](const LabelledPictures& pictures, Split split) {
    return pictures.example(split, 0, nullptr);
  };
  EXPECT_TRUE(
      example(corrupted, Split::train).at("image").equal(example(clean, Split::train).at("image")));
  EXPECT_FALSE(
      example(corrupted, Split::test).at("image").equal(example(clean, Split::test).at("image")));
  EXPECT_TRUE(example(corrupted, Split::test)
                  .at("label_map")
                  .equal(example(clean, Split::test).at("label_map")));
  options.corruption.corruption = "fog";
  options.corruption.constants = "yam";
  EXPECT_THAT(message_of<OptionError>([&] { numbered(options, 20, 24); }),
              mentions("corruption_constants:", "yam", "one size"));
}

// --- colours ------------------------------------------------------------------------------------

/// Hue in degrees, saturation and value of a colour in [0, 1].
std::array<double, 3> hsv_of(double r, double g, double b) {
  const double v = std::max({r, g, b}), chroma = v - std::min({r, g, b});
  double hue = 0;
  if (chroma > 0) {
    hue = v == r   ? 60 * (g - b) / chroma
          : v == g ? 120 + 60 * (b - r) / chroma
                   : 240 + 60 * (r - g) / chroma;
  }
  return {hue < 0 ? hue + 360 : hue, v > 0 ? chroma / v : 0, v};
}

std::array<double, 3> rgb_of(double hue, double s, double v) {
  const double sixth = std::fmod(hue + 720, 360.0) / 60, chroma = v * s;
  const double x = chroma * (1 - std::abs(std::fmod(sixth, 2.0) - 1)), m = v - chroma;
  const double table[6][3] = {{chroma, x, 0}, {x, chroma, 0}, {0, chroma, x},
                              {0, x, chroma}, {x, 0, chroma}, {chroma, 0, x}};
  const double* row = table[std::min(5, int(sixth))];
  return {row[0] + m, row[1] + m, row[2] + m};
}

Pixels some_colours() {
  Pixels image(4, 64, 3);
  for (std::size_t i = 0; i < image.bytes.size(); ++i) {
    image.bytes[i] = static_cast<std::uint8_t>((97 * i + i * i / 7) % 256);
  }
  for (int c = 0; c < 3; ++c) image.bytes[std::size_t(c)] = 80;  // grey
  return image;
}

/// Each byte against the definition by HSV, to the last digit or one beside it.
void expect_changed(const Pixels& before, const Pixels& after, double degrees, double factor) {
  for (std::size_t i = 0; i < before.bytes.size(); i += 3) {
    const auto [h, s, v] =
        hsv_of(before.bytes[i] / 255.0, before.bytes[i + 1] / 255.0, before.bytes[i + 2] / 255.0);
    const auto expected = rgb_of(h + degrees, std::min(1.0, s * factor), v);
    for (std::size_t c = 0; c < 3; ++c) {
      EXPECT_NEAR(after.bytes[i + c], 255 * expected[c], 0.51) << i << " " << c;
    }
  }
}

TEST(Photometric, ChangesSaturationAndHueAsHsvDefinesThem) {
  for (const double factor : {0.5, 0.8, 1.0, 1.5, 4.0}) {
    Pixels image = some_colours();
    scale_saturation(image, factor);
    expect_changed(some_colours(), image, 0, factor);
  }
  for (const double degrees : {-36.0, -2.0, 0.0, 34.0, 180.0}) {
    Pixels image = some_colours();
    turn_hue(image, degrees);
    expect_changed(some_colours(), image, degrees, 1);
  }
}

TEST(Photometric, ChangesMostPicturesAndEachByItsStream) {
  int same = 0;
  double brighter = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Pixels image = some_colours(), again = some_colours();
    Random first(seed), second(seed);
    distort_colours(image, first);
    distort_colours(again, second);
    EXPECT_EQ(image.bytes, again.bytes);
    same += image.bytes == some_colours().bytes ? 1 : 0;
    double sum = 0;
    for (const std::uint8_t byte : image.bytes) sum += byte;
    for (const std::uint8_t byte : some_colours().bytes) sum -= byte;
    brighter += sum > 0 ? 1 : 0;
  }
  EXPECT_NEAR(same / 400.0, 1.0 / 16, 0.05) << "four changes, each with probability 1/2";
  EXPECT_NEAR(brighter / 400, 0.45, 0.15) << "both ways";
}

}  // namespace
}  // namespace attnlab::label_framing_test
