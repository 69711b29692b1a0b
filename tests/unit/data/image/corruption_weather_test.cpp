// Fog, snow and frost as the public code of ImageNet-C has them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "framework/data/image/corruption.h"
#include "framework/data/image/corruption_kinds.h"
#include "framework/data/image/plasma.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/data/image/made_pictures.h"

namespace attnlab::corruption_weather_test {
namespace {

using testing::corruption_options;
using ::testing::HasSubstr;
using testing::message_of;
using testing::picture;
using testing::plain;

constexpr std::int64_t kSize = testing::kPictureSide;

TEST(Corruptions, HaveTheCloudsOfNumpysNumbers) {
  const NumpyPlasmas clouds(0, kSize, 2, 70);
  const FloatImage first = clouds.map(0), last = clouds.map(69);
  const std::vector<double> of_first = {0.5338507066449174, 0.5529301598861313, 0.5274694129233701,
                                        0.4856571578285803, 0.43426612177060925};
  const std::vector<double> of_last = {0.4372219783873557, 0.37398641040350566, 0.3752972404989261,
                                       0.34294206583812065, 0.30106992595532606};
  for (std::int64_t x = 0; x < 5; ++x) {
    EXPECT_NEAR(first.at(16, 3 + x), of_first[std::size_t(x)], 1e-12);
    EXPECT_NEAR(last.at(16, 3 + x), of_last[std::size_t(x)], 1e-12);
  }
  EXPECT_NEAR(std::accumulate(first.values.begin(), first.values.end(), 0.0), 523.56164816259,
              1e-9);
  EXPECT_EQ(plasma_draws(kSize), 1023U);
  EXPECT_EQ(plasma_size(224), 256);
}

TEST(Corruptions, LayTheFogOfPublishedCodeOverImagesByTheirNumber) {
  // Severity 4 has amount 1 and decay 2: the clouds above.
  CorruptionOptions options = corruption_options("fog", 4, "yam");
  const Corruption fog(options, kSize, kSize, 70);
  for (const std::int64_t number : {0, 69}) {
    Pixels image = picture();
    fog.apply(image, number);
    const FloatImage cloud = NumpyPlasmas(0, kSize, 2, 70).map(number);
    const Pixels before = picture();
    const double most = *std::max_element(before.bytes.begin(), before.bytes.end()) / 255.0;
    for (std::int64_t x = 0; x < kSize; ++x) {
      const double level = (before.row(7)[3 * x + 1] / 255.0 + cloud.at(7, x)) * most / (most + 1);
      EXPECT_EQ(image.row(7)[3 * x + 1], static_cast<std::uint8_t>(level * 255)) << number << x;
    }
  }
  // Of a side that is not a power of two the middle of the next larger cloud is taken.
  const std::int64_t side = 28;
  Pixels small = picture(side);
  const Pixels before = small;
  Corruption(options, side, side, 70).apply(small, 3);
  const FloatImage cloud = NumpyPlasmas(0, kSize, 2, 70).map(3);
  const double most = *std::max_element(before.bytes.begin(), before.bytes.end()) / 255.0;
  for (std::int64_t x = 0; x < side; ++x) {
    const double level =
        (before.row(7)[3 * x] / 255.0 + cloud.at(7 + 2, x + 2)) * most / (most + 1);
    EXPECT_EQ(small.row(7)[3 * x], static_cast<std::uint8_t>(level * 255)) << x;
  }
  options.corruption = "snow";
  EXPECT_THAT(message_of<OptionError>([&] { Corruption(options, kSize, kSize); }),
              HasSubstr("is for fog"));
}

// The public code's lines one by one, with its draws in their order: the layer's pixels, then the
// direction in which flakes fall.
TEST(Corruptions, SnowAsThePublishedEquationsSay) {
  for (const bool cifar : {false, true}) {
    const corruptions::Constants c = corruptions::constants_of("snow", cifar, 4);
    const FloatImage x = numbers_of(picture());
    FloatImage found = x;
    Random drawn(12), same(12);
    corruptions::snow(found, c, drawn);
    FloatImage layer(kSize, kSize, 1);
    for (double& value : layer.values) value = c[0] + c[1] * same.normal();
    layer = zoomed(layer, c[2]);
    for (double& value : layer.values) value = value < c[3] ? 0 : value;
    layer = motion_blurred(numbers_of(bytes_of(layer)), c[4], c[5], -135 + 90 * same.uniform());
    double most = 0;
    for (std::int64_t y = 0; y < kSize; ++y) {
      for (std::int64_t at = 0; at < kSize; ++at) {
        const double grey = .299 * x.at(y, at, 0) + .587 * x.at(y, at, 1) + .114 * x.at(y, at, 2);
        const double turned = layer.at(kSize - 1 - y, kSize - 1 - at);
        for (std::int64_t k = 0; k < 3; ++k) {
          const double own = x.at(y, at, k);
          const double wanted =
              c[6] * own + (1 - c[6]) * std::max(own, grey * 1.5 + .5) + layer.at(y, at) + turned;
          ASSERT_NEAR(found.at(y, at, k), wanted, 1e-12) << y << ", " << at;
        }
        most = std::max(most, layer.at(y, at));
      }
    }
    EXPECT_GT(most, 0.02) << "flakes";
  }
}

/// Five photos of frost, all of them the same.
void write_photos(const testing::TempFolder& folder, const std::string& photo) {
  for (int i = 1; i <= 5; ++i) folder.write("frost" + std::to_string(i) + ".ppm", photo);
}

TEST(Corruptions, LayPhotosOfFrostOverImages) {
  CorruptionOptions options = corruption_options("frost", 5, "imagenet");
  testing::TempFolder folder;
  options.frost = folder.path();
  EXPECT_THAT(
      message_of<DataMissingError>([&] { Corruption(options, 8, 8); }),
      ::testing::AllOf(HasSubstr("leave frost out"), HasSubstr("correct the option `frost`")));
  std::string photo = "P6\n# by hand\n12 10\n255\n";
  for (int k = 0; k < 12 * 10; ++k) photo += "\x28\x50\x78";  // 40, 80, 120
  write_photos(folder, photo);
  Pixels image = plain(100, 8);
  Corruption(options, 8, 8).apply(image);  // 0.6 x + 0.75 ice
  EXPECT_EQ(image.row(3)[9], 90);
  EXPECT_EQ(image.row(3)[10], 120);
  EXPECT_EQ(image.row(3)[11], 150);
  folder.write("frost3.ppm", "P6\n12 10\n255\nshort");
  EXPECT_THAT(message_of<DataError>([&] { Corruption(options, 8, 8); }), HasSubstr("frost3.ppm"));
}

// CIFAR-10-C's code takes a fifth of each photo by cv2.resize without antialias, whose samples fall
// on pixels (5 y + 2, 5 x + 2); it rounds the size to the nearest number.
TEST(Corruptions, TakeEveryFifthPixelOfFrostForCifar) {
  const std::int64_t height = 48, width = 43;  // 10 x 9 of them
  Pixels photo(height, width, 3);
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const bool seen = y % 5 == 2 && x % 5 == 2;
      for (std::int64_t c = 0; c < 3; ++c) {
        photo.row(y)[3 * x + c] = static_cast<std::uint8_t>(seen ? 3 * y + 2 * x + 40 * c : 255);
      }
    }
  }
  testing::TempFolder folder;
  write_photos(folder, "P6\n43 48\n255\n" + std::string(photo.bytes.begin(), photo.bytes.end()));
  CorruptionOptions options = corruption_options("frost", 1, "cifar");  // x + 0.2 frost
  options.frost = folder.path();
  Pixels image = plain(20, 8);
  Corruption(options, 8, 8).apply(image);
  // The part begins at one of (10 - 8) x (9 - 8) places.
  const auto fits = [&](std::int64_t top, std::int64_t left) {
    for (std::int64_t y = 0; y < 8; ++y) {
      for (std::int64_t x = 0; x < 8; ++x) {
        const std::uint8_t* ice = photo.row(5 * (top + y) + 2) + 3 * (5 * (left + x) + 2);
        for (std::int64_t c = 0; c < 3; ++c) {
          if (image.row(y)[3 * x + c] != static_cast<std::uint8_t>(20 + .2 * ice[c])) return false;
        }
      }
    }
    return true;
  };
  EXPECT_NE(fits(0, 0), fits(1, 0));
  EXPECT_THAT(message_of<DataError>([&] { Corruption(options, 10, 9); }), HasSubstr("too small"));
}

}  // namespace
}  // namespace attnlab::corruption_weather_test
