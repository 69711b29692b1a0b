// Corruptions against the libraries that ImageNet-C's code calls: tests/references/corruptions.py
// made the numbers. What is random is tested by its distribution, or with the randomness taken out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "framework/data/formats/files.h"
#include "framework/data/image/corruption.h"
#include "framework/data/image/corruption_kinds.h"
#include "framework/data/image/jpeg_loss.h"
#include "framework/data/image/resize.h"
#include "framework/data/image/warp.h"
#include "tests/support/data_files.h"
#include "tests/support/temp_folder.h"

namespace attnlab::corruption_test {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

constexpr std::int64_t kSize = 32;

Pixels picture(std::int64_t size = kSize) {
  Pixels image(size, size, 3);
  for (std::int64_t y = 0; y < size; ++y) {
    for (std::int64_t x = 0; x < size; ++x) {
      for (std::int64_t c = 0; c < 3; ++c) {
        image.row(y)[3 * x + c] = static_cast<std::uint8_t>(
            9 * y + 5 * x + 60 * c + x * y * (c + 1) / 3 + 40 * ((x / 4 + y / 5) % 2));
      }
    }
  }
  return image;
}

/// A picture of one level.
Pixels plain(std::uint8_t level, std::int64_t size = 64) {
  Pixels image(size, size, 3);
  std::fill(image.bytes.begin(), image.bytes.end(), level);
  return image;
}

Pixels corrupted(Pixels image, const std::string& kind, std::int64_t severity,
                 const std::string& constants = "auto") {
  CorruptionOptions options;
  options.corruption = kind;
  options.severity = severity;
  options.constants = constants;
  Corruption(options, image.height, image.width).apply(image);
  return image;
}

double mean_of(const std::vector<std::uint8_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), 0.0) / double(bytes.size());
}

double deviation_of(const std::vector<std::uint8_t>& bytes) {
  const double mean = mean_of(bytes);
  double sum = 0;
  for (const std::uint8_t byte : bytes) sum += (byte - mean) * (byte - mean);
  return std::sqrt(sum / double(bytes.size()));
}

struct Near {
  std::string name;
  double sum;
  std::vector<int> middle;  ///< the first bytes of the row in the middle
  int apart = 1;            ///< largest difference of a byte
  double mean_apart = 0.1;
};

FloatImage waved(const FloatImage& x) {
  FloatImage out = x;
  for (std::int64_t y = 0; y < kSize; ++y) {
    for (std::int64_t at = 0; at < kSize; ++at) {
      for (std::int64_t c = 0; c < 3; ++c) {
        out.at(y, at, c) =
            sampled(x, double(y) + 3 * std::sin(double(at) / 3),
                    double(at) + 4 * std::cos(double(y) / 4), c, BorderRule::half_mirror);
      }
    }
  }
  return out;
}

Pixels changed(const std::string& name) {
  namespace kinds = corruptions;
  FloatImage x = numbers_of(picture());
  if (name == "gaussian_blur") x = gaussian(x, 1.4);
  if (name == "zoom_blur") x = kinds::zoom_blur(x, 1.11, .01);
  if (name == "contrast") kinds::contrast(x, .3);
  if (name == "brightness") kinds::brightness(x, .3);
  if (name == "saturate less") kinds::saturate(x, .3, 0);
  if (name == "saturate more") kinds::saturate(x, 2, .1);
  if (name == "waved") x = waved(x);
  if (name == "pixelate 0.6") return kinds::pixelate(picture(), .6);
  if (name == "pixelate 0.85") return kinds::pixelate(picture(), .85);
  if (name == "jpeg 80") return jpeg_loss(picture(), 80);
  if (name == "jpeg 10") return jpeg_loss(picture(), 10);
  return bytes_of(x);
}

// The pixel under the centre of the new one. Where that is an edge, the pixel behind it, as
// Pillow's box has it (its nearest has 0 1 1 2 2 3, OpenCV's exact nearest 0 0 1 2 3 3).
TEST(Corruptions, EnlargeByOneRuleForTheNearestPixel) {
  Pixels four(1, 4, 1);
  four.bytes = {0, 1, 2, 3};
  EXPECT_THAT(resized(four, {0, 0, 1, 4}, 1, 6, Filter::box).bytes,
              ::testing::ElementsAre(0, 1, 1, 2, 3, 3));
  EXPECT_THAT(resized(four, {0, 0, 1, 4}, 1, 8, Filter::box).bytes,
              ::testing::ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  // So do the maps of augmentation: half a pixel to the left, to the right, and twice the size.
  EXPECT_THAT(warped(four, {.c = 0.5}, Sampling::nearest, {9}).bytes,
              ::testing::ElementsAre(1, 2, 3, 9));
  EXPECT_THAT(warped(four, {.c = -0.5}, Sampling::nearest, {9}).bytes,
              ::testing::ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(warped(four, {.a = 0.5, .c = 0.25}, Sampling::nearest, {9}).bytes,
              ::testing::ElementsAre(0, 1, 1, 2));
}

TEST(Corruptions, AreThoseOfTheLibraries) {
  const std::vector<Near> all = {
      {"gaussian_blur", 395632, {183, 158, 77,  189, 118, 81,  195, 84, 87,  198, 66, 97,
                                 199, 57,  108, 198, 54,  123, 190, 59, 141, 164, 75, 159}},
      {"zoom_blur", 393885, {184, 179, 52, 193, 77, 72,  203, 26, 91,  201, 45, 99,
                             185, 78,  93, 192, 40, 110, 202, 38, 130, 188, 59, 156}},
      {"contrast", 395531, {144, 162, 107, 147, 90, 113, 150, 95,  120, 153, 100, 126,
                            144, 92,  120, 147, 97, 126, 150, 102, 133, 153, 106, 139}},
      {"brightness", 481390, {192, 255, 50,  255, 3,  90,  255, 23, 112, 255, 41, 131,
                              255, 13,  126, 255, 33, 147, 255, 51, 165, 255, 67, 182}},
      {"saturate less", 552088, {226, 244, 185, 194, 136, 156, 204, 148, 169, 215, 161, 183,
                                 185, 132, 157, 195, 144, 170, 206, 156, 184, 216, 168, 197}},
      {"saturate more", 318206, {169, 244, 0,  194, 0, 67,  204, 0, 78,  215, 0, 90,
                                 185, 0,   86, 195, 0, 100, 206, 0, 115, 216, 0, 133}},
      {"waved", 400315, {200, 12, 81,  198, 105, 70,  200, 41, 64,  210, 17, 79,
                         225, 38, 107, 237, 56,  132, 231, 56, 137, 211, 42, 129}},
      // Pillow rounds halves up twice, once in each direction.
      {"pixelate 0.6",
       398486,
       {185, 184, 54, 185, 184, 54,  200, 14, 85,  195, 82, 96,
        195, 82,  96, 196, 28,  117, 196, 28, 117, 211, 51, 147},
       1,
       0.4},
      {"pixelate 0.85",
       397649,
       {180, 240, 44, 190, 127, 64,  205, 22, 95,  205, 22, 95,
        180, 133, 86, 190, 20,  106, 201, 36, 127, 211, 51, 147},
       1,
       0.4},
      // libjpeg computes its transforms in whole numbers.
      {"jpeg 80",
       396312,
       {242, 205, 134, 115, 47, 8,  172, 42, 66,  197, 45, 102,
        161, 26,  85,  173, 32, 98, 217, 46, 122, 193, 65, 158},
       3},
      {"jpeg 10",
       389964,
       {255, 181, 208, 216, 87, 105, 142, 16, 17,  141, 20, 29,
        161, 42,  84,  158, 46, 122, 159, 59, 171, 170, 97, 189},
       3},
  };
  for (const Near& expected : all) {
    const Pixels found = changed(expected.name);
    for (std::size_t i = 0; i < expected.middle.size(); ++i) {
      EXPECT_NEAR(found.row(kSize / 2)[i], expected.middle[i], expected.apart)
          << expected.name << ", byte " << i;
    }
    const double sum = mean_of(found.bytes) * double(found.bytes.size());
    EXPECT_NEAR(sum, expected.sum, expected.mean_apart * double(found.bytes.size()))
        << expected.name;
  }
}

// Constants by severity are tested by themselves; here that images of 224 pixels get ImageNet-C's
// at the sizes it has them for: elastic fields of 244, a cloud of 256 whose corner is laid over the
// image, angles of up to 45 degrees.
TEST(Corruptions, AtTheSizeOfImagenetAreImagenetC) {
  const std::int64_t size = 224;
  const Pixels image = picture(size);
  const FloatImage numbers = numbers_of(image);
  namespace kinds = corruptions;
  for (const std::int64_t severity : {1, 3, 5}) {
    const auto constants = [&](const std::string& kind) {
      return kinds::constants_of(kind, /*cifar=*/false, severity);
    };
    const auto whole = [](double value) { return static_cast<std::int64_t>(value); };
    const auto changing = [&](auto change) {
      return [&, change](const kinds::Constants& c, Random& random) {
        FloatImage x = numbers;
        change(x, c, random);
        return bytes_of(x);
      };
    };
    using Change = std::function<Pixels(const kinds::Constants&, Random&)>;
    const std::map<std::string, Change> all = {
        {"defocus_blur",
         [&](const auto& c, Random&) {
           return bytes_of(correlated(numbers, kinds::defocus_kernel(c[0], c[1])));
         }},
        {"glass_blur",
         [&](const auto& c, Random& random) {
           return bytes_of(kinds::glass_blur(image, c[0], whole(c[1]), whole(c[2]), random));
         }},
        {"motion_blur",
         [&](const auto& c, Random& random) {
           return bytes_of(motion_blurred(numbers, c[0], c[1], -45 + 90 * random.uniform()));
         }},
        {"zoom_blur",
         [&](const auto& c, Random&) { return bytes_of(kinds::zoom_blur(numbers, c[0], c[1])); }},
        {"fog", changing([&](FloatImage& x, const auto& c, Random& random) {
           const FloatImage cloud = plasma(256, c[1], [&] { return random.uniform(); });
           const double most = *std::max_element(x.values.begin(), x.values.end());
           for (std::int64_t y = 0; y < size; ++y) {
             for (std::int64_t at = 0; at < size; ++at) {
               for (std::int64_t k = 0; k < 3; ++k) {
                 x.at(y, at, k) = (x.at(y, at, k) + c[0] * cloud.at(y, at)) * most / (most + c[0]);
               }
             }
           }
         })},
        {"elastic_transform",
         [&](const auto& c, Random& random) {
           return bytes_of(kinds::elastic(numbers, 244 * c[0], 244 * c[1], 244 * c[2], random));
         }},
        {"gaussian_noise", changing([](FloatImage& x, const auto& c, Random& random) {
           for (double& value : x.values) value += c[0] * random.normal();
         })},
        {"snow",
         changing([](FloatImage& x, const auto& c, Random& random) { kinds::snow(x, c, random); })},
        {"contrast",
         changing([](FloatImage& x, const auto& c, Random&) { kinds::contrast(x, c[0]); })},
        {"pixelate", [&](const auto& c, Random&) { return kinds::pixelate(image, c[0]); }},
        {"jpeg_compression", [&](const auto& c, Random&) { return jpeg_loss(image, int(c[0])); }},
    };
    const std::string_view bytes(reinterpret_cast<const char*>(image.bytes.data()),
                                 image.bytes.size());
    for (const auto& [kind, change] : all) {
      Random random = RandomStreams(0).stream("corruption/" + kind, std::uint64_t(severity),
                                              content_fingerprint(bytes));
      const Pixels expected = change(constants(kind), random);
      EXPECT_TRUE(corrupted(image, kind, severity).bytes == expected.bytes)
          << kind << " at severity " << severity;
      EXPECT_FALSE(expected.bytes == image.bytes) << kind;
    }
  }
}

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
  CorruptionOptions options;
  options.corruption = "fog";
  options.severity = 4;  // amount 1, decay 2: the clouds above
  options.constants = "yam";
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

TEST(Corruptions, AddNoiseOfThePublishedStrength) {
  // Severity 1 of ImageNet-C; grey is far enough from black and white.
  EXPECT_NEAR(deviation_of(corrupted(plain(128), "gaussian_noise", 1).bytes), .08 * 255, .4);
  EXPECT_NEAR(deviation_of(corrupted(plain(128), "speckle_noise", 1).bytes), .15 * 128, .4);
  const Pixels shot = corrupted(plain(128), "shot_noise", 1);  // Poisson(60 x) / 60
  EXPECT_NEAR(mean_of(shot.bytes), 128, .8);
  EXPECT_NEAR(deviation_of(shot.bytes), 255 * std::sqrt(60 * 128 / 255.0) / 60, .5);
  EXPECT_NEAR(deviation_of(corrupted(plain(128, kSize), "gaussian_noise", 1).bytes), .04 * 255, .4);
  const Pixels salted = corrupted(plain(128), "impulse_noise", 5);
  const auto count = [&](int level) {
    return double(std::count(salted.bytes.begin(), salted.bytes.end(), level)) /
           double(salted.bytes.size());
  };
  EXPECT_NEAR(count(0), .135, .01);
  EXPECT_NEAR(count(255), .135, .01);
  EXPECT_NEAR(count(128), .73, .015);
}

TEST(Corruptions, SpreadAPointAsTheirKernelsSay) {
  FloatImage point(41, 41, 1);
  point.at(20, 20) = 1;
  const FloatImage disk = correlated(point, corruptions::defocus_kernel(6, .5));
  EXPECT_NEAR(std::accumulate(disk.values.begin(), disk.values.end(), 0.0), 1, 1e-12);
  EXPECT_NEAR(disk.at(20, 20), 1 / 113.0, 1e-12);  // 113 points of the grid within 6
  EXPECT_EQ(disk.at(20, 28), 0);
  EXPECT_GT(disk.at(20, 26), 0);
  // Motion to the right: what is behind the pixel comes over it, so the point moves to the left.
  const FloatImage moved = motion_blurred(point, 3, 1.5, 0);
  double sum = 0;
  for (int i = 0; i < 7; ++i) sum += std::exp(-i * i / (2 * 1.5 * 1.5));
  for (int i = 0; i < 7; ++i) {
    const double weight = std::exp(-i * i / (2 * 1.5 * 1.5)) / sum;
    EXPECT_NEAR(moved.at(20, 20 - i), weight, .5 / 255 + 1e-9) << i;
  }
  EXPECT_EQ(moved.at(20, 21), 0);
  EXPECT_EQ(moved.at(19, 20), 0);
}

TEST(Corruptions, ReadBeyondEdgesAsTheLibrariesDo) {
  const auto row = [](BorderRule beyond) {
    std::string letters;
    for (std::int64_t i = -3; i < 7; ++i) letters += "abcd"[inside(i, 4, beyond)];
    return letters;
  };
  EXPECT_EQ(row(BorderRule::clamp), "aaaabcdddd");
  EXPECT_EQ(row(BorderRule::mirror), "dcbabcdcba");
  EXPECT_EQ(row(BorderRule::half_mirror), "cbaabcddcb");
}

TEST(Corruptions, CopyPixelsFromNearBehindGlass) {
  Pixels image(16, 16, 1);
  std::iota(image.bytes.begin(), image.bytes.end(), std::uint8_t{0});
  Random random(7);
  const Pixels mixed = bytes_of(corruptions::glass_blur(image, 0.05, 1, 1, random));
  int differ = 0;
  for (std::int64_t y = 0; y < 16; ++y) {
    for (std::int64_t x = 0; x < 16; ++x) {
      const int from = mixed.row(y)[x];
      // Rows are done from the last to the first: what was copied may have come from further down.
      EXPECT_LE(from / 16, y) << y << "," << x;
      differ += from != 16 * y + x;
    }
  }
  for (std::int64_t x = 0; x < 16; ++x) EXPECT_EQ(mixed.row(0)[x], x);  // the frame stays
  EXPECT_GT(differ, 100);
}

TEST(Corruptions, ShiftNothingWhereNothingIsToBeShifted) {
  Random random(3);
  const FloatImage x = numbers_of(picture());
  const FloatImage same = corruptions::elastic(x, 0, 1, 0, random);
  for (std::size_t i = 0; i < x.values.size(); ++i) ASSERT_NEAR(same.values[i], x.values[i], 1e-12);
  // Corners that move by s move nothing by much more than s times how far it lies outside.
  FloatImage ramp(64, 64, 1);
  for (std::int64_t y = 0; y < 64; ++y) {
    for (std::int64_t at = 0; at < 64; ++at) ramp.at(y, at) = double(at) / 64;
  }
  const FloatImage bent = corruptions::elastic(ramp, 0, 1, 2, random);
  double most = 0;
  for (std::int64_t y = 16; y < 48; ++y) {
    for (std::int64_t at = 16; at < 48; ++at) {
      most = std::max(most, 64 * std::abs(bent.at(y, at) - ramp.at(y, at)));
    }
  }
  EXPECT_GT(most, 0.1);
  EXPECT_LT(most, 12);
}

/// max(0, 1 - |distance|): how much a pixel counts at a place between pixels.
double tent(double distance) { return std::max(0.0, 1 - std::abs(distance)); }

/// The value of x at a place between pixels: a sum over every pixel that counts, by definition.
double between_pixels(const FloatImage& x, double y, double at, std::int64_t c, BorderRule beyond) {
  const auto top = static_cast<std::int64_t>(std::floor(y));
  const auto left = static_cast<std::int64_t>(std::floor(at));
  double sum = 0;
  for (std::int64_t i = top; i <= top + 1; ++i) {
    for (std::int64_t j = left; j <= left + 1; ++j) {
      sum += tent(y - double(i)) * tent(at - double(j)) *
             x.at(inside(i, x.height, beyond), inside(j, x.width, beyond), c);
    }
  }
  return sum;
}

/// A field of uniform draws, smoothed by the whole two-dimensional kernel.
FloatImage smoothed_draws(double sigma, Random& random) {
  FloatImage draws(kSize, kSize, 1), out(kSize, kSize, 1);
  for (double& value : draws.values) value = 2 * random.uniform() - 1;
  const auto reach = static_cast<std::int64_t>(3 * sigma + 0.5);
  for (std::int64_t y = 0; y < kSize; ++y) {
    for (std::int64_t x = 0; x < kSize; ++x) {
      double sum = 0, weights = 0;
      for (std::int64_t i = -reach; i <= reach; ++i) {
        for (std::int64_t j = -reach; j <= reach; ++j) {
          const double weight = std::exp(-double(i * i + j * j) / (2 * sigma * sigma));
          weights += weight;
          sum += weight * draws.at(inside(y + i, kSize, BorderRule::half_mirror),
                                   inside(x + j, kSize, BorderRule::half_mirror));
        }
      }
      out.at(y, x) = sum / weights;
    }
  }
  return out;
}

// cv2.getAffineTransform of three corners, cv2.warpAffine, then a shift of each pixel, in the order
// in which the public code draws: three corners, the shifts to the right, those down.
TEST(Corruptions, ShiftAsThePublishedEquationsSay) {
  const double amount = 40, smooth = 2, shift = 3;
  const FloatImage x = numbers_of(picture());
  Random drawn(11), same(11);
  const FloatImage found = corruptions::elastic(x, amount, smooth, shift, drawn);
  // Corners (x, y) of a square of a third of the side about the middle; they go to q.
  const double p[3][2] = {{26, 26}, {26, 6}, {6, 6}};
  double q[3][2];
  for (int i = 0; i < 3; ++i) {
    for (int k = 0; k < 2; ++k) q[i][k] = p[i][k] + shift * (2 * same.uniform() - 1);
  }
  const FloatImage right = smoothed_draws(smooth, same), down = smoothed_draws(smooth, same);
  // A point of the result is w1 q1 + w2 q2 + w3 q3 with weights that sum to one, and comes from the
  // same weights of p: areas of triangles.
  const auto area = [](const double* a, const double* b, const double* c) {
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
  };
  FloatImage moved(kSize, kSize, 3), expected(kSize, kSize, 3);
  for (std::int64_t y = 0; y < kSize; ++y) {
    for (std::int64_t at = 0; at < kSize; ++at) {
      const double here[2] = {double(at), double(y)};
      const double whole = area(q[0], q[1], q[2]);
      const double w[3] = {area(here, q[1], q[2]) / whole, area(q[0], here, q[2]) / whole,
                           area(q[0], q[1], here) / whole};
      const double from_x = w[0] * p[0][0] + w[1] * p[1][0] + w[2] * p[2][0];
      const double from_y = w[0] * p[0][1] + w[1] * p[1][1] + w[2] * p[2][1];
      for (std::int64_t c = 0; c < 3; ++c) {
        moved.at(y, at, c) = between_pixels(x, from_y, from_x, c, BorderRule::mirror);
      }
    }
  }
  double most = 0;
  for (std::int64_t y = 0; y < kSize; ++y) {
    for (std::int64_t at = 0; at < kSize; ++at) {
      for (std::int64_t c = 0; c < 3; ++c) {
        const double wanted =
            between_pixels(moved, double(y) + amount * down.at(y, at),
                           double(at) + amount * right.at(y, at), c, BorderRule::half_mirror);
        ASSERT_NEAR(found.at(y, at, c), wanted, 1e-9) << y << ", " << at;
        most = std::max(most, std::abs(wanted - x.at(y, at, c)));
      }
    }
  }
  EXPECT_GT(most, 0.3);
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

TEST(Corruptions, AreWorseTheSevererAndTheSameEachTime) {
  for (const std::string& kind : standard_corruptions()) {
    if (kind == "frost") continue;  // needs photos
    for (const char* constants : {"cifar", "imagenet"}) {
      double before = 0;
      for (const std::int64_t severity : {1, 5}) {
        const Pixels once = corrupted(picture(), kind, severity, constants);
        EXPECT_EQ(once.bytes, corrupted(picture(), kind, severity, constants).bytes) << kind;
        double distance = 0;
        for (std::size_t i = 0; i < once.bytes.size(); ++i) {
          distance += std::abs(once.bytes[i] - picture().bytes[i]);
        }
        // Elastic severities differ in kind: the first shift much and slowly, the last little.
        const bool rises = severity == 5 && kind != "elastic_transform";
        EXPECT_GT(distance, rises ? before * 0.8 : 0) << kind << " " << constants;
        before = distance;
      }
    }
  }
}

TEST(Corruptions, LayPhotosOfFrostOverImages) {
  CorruptionOptions options;
  options.corruption = "frost";
  options.severity = 5;
  options.constants = "imagenet";
  testing::TempFolder folder;
  options.frost = folder.path();
  EXPECT_THAT(
      message_of<DataMissingError>([&] { Corruption(options, 8, 8); }),
      ::testing::AllOf(HasSubstr("leave frost out"), HasSubstr("correct the option `frost`")));
  for (int i = 1; i <= 5; ++i) {
    std::string photo = "P6\n# by hand\n12 10\n255\n";
    for (int k = 0; k < 12 * 10; ++k) photo += "\x28\x50\x78";  // 40, 80, 120
    folder.write("frost" + std::to_string(i) + ".ppm", photo);
  }
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
  for (int i = 1; i <= 5; ++i) {
    folder.write("frost" + std::to_string(i) + ".ppm",
                 "P6\n43 48\n255\n" + std::string(photo.bytes.begin(), photo.bytes.end()));
  }
  CorruptionOptions options;
  options.corruption = "frost";
  options.severity = 1;  // x + 0.2 frost
  options.constants = "cifar";
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

TEST(Corruptions, OfOneChannelWorkToo) {
  Pixels grey(28, 28, 1);
  for (std::size_t i = 0; i < grey.bytes.size(); ++i) grey.bytes[i] = std::uint8_t(i * 7);
  for (const std::string& kind : standard_corruptions()) {
    if (kind == "frost") continue;
    EXPECT_NE(corrupted(grey, kind, 4).bytes, grey.bytes) << kind;
  }
}

}  // namespace
}  // namespace attnlab::corruption_test
