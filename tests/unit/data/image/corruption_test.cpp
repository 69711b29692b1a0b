// Corruptions against the libraries that ImageNet-C's code calls: tests/references/corruptions.py
// made the numbers. What is random is tested by its distribution, or with the randomness taken out.
#include "framework/data/image/corruption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "framework/data/formats/files.h"
#include "framework/data/image/corruption_kinds.h"
#include "framework/data/image/jpeg_loss.h"
#include "framework/data/image/resize.h"
#include "framework/data/image/warp.h"
#include "tests/unit/data/image/made_pictures.h"

namespace attnlab::corruption_test {
namespace {

using testing::corrupted;
using testing::picture;
using testing::plain;

constexpr std::int64_t kSize = testing::kPictureSide;

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
