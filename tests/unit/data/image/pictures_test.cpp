// The changes of pictures against Pillow's: tests/references/pictures.py made the numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <numeric>

#include "framework/base/files.h"
#include "framework/data/image/colour.h"
#include "framework/data/image/resize.h"
#include "framework/data/image/warp.h"

namespace attnlab::pictures_test {
namespace {

constexpr std::int64_t kHeight = 20, kWidth = 26;

Pixels picture() {
  Pixels image(kHeight, kWidth, 3);
  for (std::int64_t y = 0; y < kHeight; ++y) {
    for (std::int64_t x = 0; x < kWidth; ++x) {
      for (std::int64_t c = 0; c < 3; ++c) {
        image.row(y)[3 * x + c] = static_cast<std::uint8_t>(
            9 * y + 5 * x + 60 * c + x * y * (c + 1) / 3 + 40 * ((x / 4 + y / 5) % 2));
      }
    }
  }
  return image;
}

std::uint64_t hash_of(const Pixels& image) {
  return fingerprint({reinterpret_cast<const char*>(image.bytes.data()), image.bytes.size()});
}

using Change = std::function<Pixels(Pixels)>;

/// A function that changes its argument, as one that returns it.
template <class Function, class... Values>
Change in_place(const Function& function, Values... values) {
  return [=](Pixels image) {
    function(image, values...);
    return image;
  };
}

Change by_map(const AffineMap& map, Sampling sampling) {
  return [=](const Pixels& image) { return warped(image, map, sampling, {10, 20, 30}); };
}

Change by_size(const Box& box, std::int64_t height, std::int64_t width, Filter filter) {
  return [=](const Pixels& image) { return resized(image, box, height, width, filter); };
}

/// By the names that the script gives them.
const std::map<std::string, Change>& changes() {
  static const std::map<std::string, Change> all = {
      {"brightness 1.9", in_place(change_brightness, 1.9)},
      {"brightness 0.3", in_place(change_brightness, 0.3)},
      {"contrast 1.5", in_place(change_contrast, 1.5)},
      {"contrast 0.1", in_place(change_contrast, 0.1)},
      {"saturation 1.7", in_place(change_saturation, 1.7)},
      {"saturation 0.4", in_place(change_saturation, 0.4)},
      {"sharpness 1.9", in_place(change_sharpness, 1.9)},
      {"sharpness 0.1", in_place(change_sharpness, 0.1)},
      {"invert", in_place(invert)},
      {"posterise 3", in_place(posterise, 3)},
      {"solarise 100", in_place(solarise, 100)},
      {"equalise", in_place(equalise)},
      {"autocontrast",
       [](Pixels image) {
         for (std::uint8_t& byte : image.bytes) byte = static_cast<std::uint8_t>(60 + byte / 2);
         autocontrast(image);
         return image;
       }},
      {"grey", in_place(make_grey)},
      {"shift nearest", by_map({.c = 3.4, .f = -2.2}, Sampling::nearest)},
      {"rotation nearest", by_map(rotation(21, kHeight, kWidth), Sampling::nearest)},
      {"shear bicubic", by_map({.b = 0.3}, Sampling::bicubic)},
      {"rotation bicubic", by_map(rotation(-13, kHeight, kWidth), Sampling::bicubic)},
      {"smaller bicubic", by_size({2, 3, 17, 21}, 6, 7, Filter::bicubic)},
      {"larger bicubic", by_size({2, 3, 7, 10}, 11, 15, Filter::bicubic)},
      {"smaller bilinear", by_size({0, 0, kHeight, kWidth}, 5, 9, Filter::bilinear)},
  };
  return all;
}

TEST(Pictures, AreByteForBytePillows) {
  const std::map<std::string, std::uint64_t> expected = {
      {"brightness 1.9", 0x4b8ea6f76cac2b11}, {"brightness 0.3", 0xde230261057de24b},
      {"contrast 1.5", 0x80edca21302cec62},   {"contrast 0.1", 0x4d87fc592475abdc},
      {"saturation 1.7", 0xdf4015d0e94558b4}, {"saturation 0.4", 0xe793f8c2d155f054},
      {"sharpness 1.9", 0xe67de3941509e3f5},  {"sharpness 0.1", 0x50c0b28e0a970e77},
      {"invert", 0xb45e6f080ed52848},         {"posterise 3", 0x1cb172508bf25f45},
      {"solarise 100", 0x58f1d5fbbe33cefe},   {"equalise", 0xc9c6dde7f3f96145},
      {"autocontrast", 0x889746a1c7df47b7},   {"grey", 0x71d7949951b76cde},
      {"shift nearest", 0x9612b2845c279014},  {"rotation nearest", 0x5467b90208dbc0c5},
  };
  EXPECT_EQ(hash_of(picture()), 0x3b1af65505da86a4) << "the script has another picture";
  for (const auto& [name, hash] : expected) {
    EXPECT_EQ(hash_of(changes().at(name)(picture())), hash) << name;
  }
}

struct Near {
  std::string name;
  std::int64_t sum;                  ///< of all bytes
  std::vector<std::uint8_t> middle;  ///< the row in the middle
};

TEST(Pictures, DifferFromPillowsByOneWherePillowRoundsInBetween) {
  const std::vector<Near> all = {
      {"shear bicubic", 180287, {123, 193, 226, 169, 247, 34,  173, 212, 72,  182, 0,   88,  183,
                                 50,  96,  153, 255, 73,  167, 219, 92,  174, 0,   106, 189, 30,
                                 128, 236, 81,  181, 239, 87,  192, 248, 100, 208, 251, 105, 216,
                                 220, 78,  193, 233, 94,  212, 246, 105, 231, 217, 123, 210, 18,
                                 174, 18,  51,  181, 56,  59,  193, 72,  61,  198, 80,  31,  172,
                                 57,  42,  186, 74,  10,  20,  30,  10,  20,  30,  10,  20,  30}},
      {"rotation bicubic",
       187238,
       {117, 178, 255, 125, 191, 167, 130, 227, 0,   155, 127, 50,  191, 0,   90,  192,
        0,   97,  201, 37,  114, 195, 18,  115, 165, 0,   90,  174, 65,  104, 174, 0,
        112, 192, 33,  132, 244, 86,  188, 234, 78,  181, 255, 77,  182, 251, 77,  184,
        240, 99,  209, 2,   111, 222, 38,  120, 232, 0,   130, 242, 220, 90,  221, 238,
        93,  211, 255, 95,  209, 255, 95,  255, 72,  140, 203, 25,  154, 37}},
      {"smaller bicubic", 16260, {169, 122, 73,  195, 35, 105, 193, 47, 137, 113, 106,
                                  205, 130, 120, 158, 85, 163, 95,  71, 202, 105}},
      {"larger bicubic", 70908, {107, 172, 237, 89,  154, 220, 70,  137, 204, 76,  144, 213,
                                 82,  151, 220, 86,  156, 229, 88,  159, 246, 114, 187, 132,
                                 141, 215, 18,  144, 219, 35,  148, 224, 44,  153, 230, 51,
                                 159, 237, 60,  141, 220, 44,  123, 203, 27}},
      {"smaller bilinear", 17500, {115, 179, 190, 137, 173, 92,  160, 121, 84,
                                   182, 72,  109, 174, 73,  148, 176, 90,  173,
                                   145, 116, 178, 125, 146, 145, 69,  174, 105}},
  };
  for (const Near& expected : all) {
    const Pixels found = changes().at(expected.name)(picture());
    const std::uint8_t* row = found.row(found.height / 2);
    ASSERT_EQ(static_cast<std::size_t>(found.width * 3), expected.middle.size()) << expected.name;
    for (std::size_t i = 0; i < expected.middle.size(); ++i) {
      EXPECT_NEAR(row[i], expected.middle[i], 1) << expected.name << ", byte " << i;
    }
    const auto sum = std::accumulate(found.bytes.begin(), found.bytes.end(), std::int64_t{0});
    EXPECT_NEAR(double(sum), double(expected.sum), 0.1 * double(found.bytes.size()))
        << expected.name;
  }
}

TEST(Pictures, AreBlurredByAGaussian) {
  Pixels image(31, 31, 1);
  image.row(15)[15] = 255;
  blur(image, 1.5);
  double sum = 0, spread = 0;
  for (std::int64_t y = 0; y < 31; ++y) {
    for (std::int64_t x = 0; x < 31; ++x) {
      sum += image.row(y)[x];
      spread += image.row(y)[x] * double((x - 15) * (x - 15));
    }
  }
  EXPECT_NEAR(sum, 255, 15);  // each byte is rounded
  EXPECT_NEAR(std::sqrt(spread / sum), 1.5, 0.1);
  EXPECT_NEAR(image.row(15)[15], 255 / (2 * std::numbers::pi * 1.5 * 1.5), 1);
  Pixels plain = picture();
  std::fill(plain.bytes.begin(), plain.bytes.end(), 77);
  blur(plain, 2);
  EXPECT_EQ(*std::min_element(plain.bytes.begin(), plain.bytes.end()), 77);
}

TEST(Pictures, AddToWhatIsDarkAlone) {
  Pixels image(1, 4, 1);
  image.bytes = {0, 100, 127, 128};
  solarise_add(image, 110);
  EXPECT_EQ(image.bytes, (std::vector<std::uint8_t>{110, 210, 237, 128}));
}

TEST(Pictures, OfOneChannelAreChangedToo) {
  Pixels grey(kHeight, kWidth, 1);
  const Pixels colours = picture();
  for (std::size_t i = 0; i < grey.bytes.size(); ++i) grey.bytes[i] = colours.bytes[3 * i];
  for (const auto& [name, change] : changes()) {
    if (name.find("saturation") != std::string::npos || name == "grey") {
      EXPECT_EQ(change(grey).bytes, grey.bytes) << name;
    } else if (name.find("contrast ") == std::string::npos) {  // by the grey of all three
      const Pixels all = change(colours), one = change(grey);
      for (std::size_t i = 0; i < one.bytes.size(); ++i) {
        ASSERT_NEAR(one.bytes[i], all.bytes[3 * i], 1) << name;
      }
    }
  }
}

TEST(Pictures, AreMovedAndMirrored) {
  const Pixels image = picture();
  const Pixels out = moved(image, {.down = 3, .right = -2, .flip = true});
  for (std::int64_t y = 0; y < kHeight; ++y) {
    for (std::int64_t x = 0; x < kWidth; ++x) {
      const std::int64_t column = kWidth - 1 - x - 2, row = y + 3;
      const bool inside = column >= 0 && row < kHeight;
      for (std::int64_t c = 0; c < 3; ++c) {
        EXPECT_EQ(out.row(y)[3 * x + c], inside ? image.row(row)[3 * column + c] : 0);
      }
    }
  }
}

TEST(Resized, GivesAWindowOfTheWhole) {
  const Pixels image = picture();
  const Box all{1, 2, 17, 20};
  const Pixels whole = resized(image, all, 13, 31, Filter::bicubic);
  const Pixels part = resized(image, all, 13, 31, Filter::bicubic, {4, 7, 5, 11});
  ASSERT_EQ(part.height, 5);
  for (std::int64_t y = 0; y < 5; ++y) {
    EXPECT_TRUE(std::equal(part.row(y), part.row(y) + 33, whole.row(y + 4) + 21)) << y;
  }
}

TEST(Resized, KeepsWhatKeepsItsSize) {
  const Pixels image = picture();
  EXPECT_EQ(resized(image, {0, 0, kHeight, kWidth}, kHeight, kWidth, Filter::bicubic).bytes,
            image.bytes);
}

}  // namespace
}  // namespace attnlab::pictures_test
