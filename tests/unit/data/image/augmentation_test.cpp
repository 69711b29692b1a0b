// What training images go through: the tables of policies, and what is drawn.
#include "framework/data/image/augmentation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "framework/base/error.h"

namespace attnlab {
namespace {

/// Every operation changes it.
Pixels gradient(std::int64_t height = 24, std::int64_t width = 32) {
  Pixels image(height, width, 3);
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      image.row(y)[3 * x] = static_cast<std::uint8_t>(8 * x);
      image.row(y)[3 * x + 1] = static_cast<std::uint8_t>(10 * y);
      image.row(y)[3 * x + 2] = static_cast<std::uint8_t>(x * x + 3 * y * y);
    }
  }
  return image;
}

using Distribution = std::map<std::vector<std::uint8_t>, int>;

template <class Change>
Distribution drawn(int times, const Change& change) {
  Distribution seen;
  for (int seed = 0; seed < times; ++seed) {
    Random random(static_cast<std::uint64_t>(seed) * 7919);
    Pixels image = gradient();
    change(image, random);
    ++seen[image.bytes];
  }
  return seen;
}

TEST(AutoAugment, HasTwentyFivePairsWithThePublishedSums) {
  // Sums over torchvision's tables (transforms.AutoAugment), which has no level where none counts.
  struct Expected {
    const char* data;
    double probabilities;
    int levels;
  };
  for (const Expected& expected : {Expected{"cifar10", 26.5, 187}, Expected{"imagenet", 31, 159}}) {
    const std::vector<PolicyPair>& policy = auto_augment_policy(expected.data);
    ASSERT_EQ(policy.size(), 25U);
    double probabilities = 0;
    int levels = 0;
    for (const PolicyPair& pair : policy) {
      for (const PolicyStep& step : pair) {
        probabilities += step.probability;
        const bool none = step.operation == Operation::autocontrast ||
                          step.operation == Operation::equalise ||
                          step.operation == Operation::invert;
        levels += none ? 0 : step.level;
        EXPECT_TRUE(step.level >= 0 && step.level <= 9);
      }
    }
    EXPECT_NEAR(probabilities, expected.probabilities, 1e-9) << expected.data;
    EXPECT_EQ(levels, expected.levels) << expected.data;
  }
}

TEST(AutoAugment, AppliesTheDrawnPairAtItsLevels) {
  // One pair: posterise at level 6 keeps round(8 - 4 * 6 / 9) = 5 bits; shear never happens.
  const std::vector<PolicyPair> one = {
      {{{Operation::posterise, 1, 6}, {Operation::shear_x, 0, 9}}}};
  const Distribution seen =
      drawn(20, [&](Pixels& image, Random& random) { auto_augment(image, one, random); });
  Pixels expected = gradient();
  for (std::uint8_t& byte : expected.bytes) byte &= 0xf8;
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen.begin()->first, expected.bytes);
}

TEST(AutoAugment, TurnsOneWayAndShiftsBothWays) {
  const auto pictures = [](Operation operation) {
    const std::vector<PolicyPair> one = {{{{operation, 1, 9}, {Operation::invert, 0, 0}}}};
    return drawn(40, [&](Pixels& image, Random& random) { auto_augment(image, one, random); });
  };
  EXPECT_EQ(pictures(Operation::rotate).size(), 1U);
  const Distribution shifted = pictures(Operation::translate_x);
  EXPECT_EQ(shifted.size(), 2U);
  for (const auto& [bytes, count] : shifted) {
    EXPECT_GT(count, 10);
    // 150/331 of 32 columns are 14.5: as many are filled with 128, at one side.
    const auto filled = [&](std::int64_t x) {
      return bytes[3 * x] == 128 && bytes[3 * x + 1] == 128;
    };
    EXPECT_NE(filled(0), filled(31));
    int columns = 0;
    for (std::int64_t x = 0; x < 32; ++x) columns += filled(x) ? 1 : 0;
    EXPECT_NEAR(columns, 14.5, 1);
  }
}

TEST(RandAugment, LeavesAloneWhatItsProbabilityLeavesAlone) {
  const auto share_changed = [](std::int64_t layers) {
    const RandAugmentOptions options{.layers = layers};
    const Distribution seen = drawn(4000, [&](Pixels& image, Random& random) {
      rand_augment(image, options, {1, 2, 3}, random);
    });
    const auto same = seen.find(gradient().bytes);
    return 1 - (same == seen.end() ? 0 : same->second) / 4000.0;
  };
  EXPECT_NEAR(share_changed(1), 0.5, 0.03);
  EXPECT_NEAR(share_changed(2), 0.75, 0.03);
  EXPECT_EQ(share_changed(0), 0);
}

TEST(RandAugment, GrowsWithItsMagnitude) {
  const auto change = [](double magnitude) {
    const RandAugmentOptions options{.layers = 1, .magnitude = magnitude, .deviation = 0};
    const Pixels before = gradient();
    double sum = 0;
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
      Random random(seed);
      Pixels image = before;
      rand_augment(image, options, {128, 128, 128}, random);
      for (std::size_t i = 0; i < image.bytes.size(); ++i) {
        sum += std::abs(int{image.bytes[i]} - int{before.bytes[i]});
      }
    }
    return sum / 500 / double(before.bytes.size());
  };
  EXPECT_LT(change(1), change(5));
  EXPECT_LT(change(5), change(10));
}

TEST(ThreeAugment, TakesOneOfThree) {
  int grey = 0, solarised = 0;
  Pixels inverted = gradient();
  for (std::uint8_t& byte : inverted.bytes) byte = byte < 128 ? byte : 255 - byte;
  for (std::uint64_t seed = 0; seed < 900; ++seed) {
    Random random(seed);
    Pixels image = gradient();
    three_augment(image, random);
    bool same = true;
    for (std::size_t i = 0; i < image.bytes.size(); i += 3) {
      same = same && image.bytes[i] == image.bytes[i + 1] && image.bytes[i] == image.bytes[i + 2];
    }
    grey += same ? 1 : 0;
    solarised += image.bytes == inverted.bytes ? 1 : 0;
  }
  EXPECT_NEAR(grey, 300, 60);
  EXPECT_NEAR(solarised, 300, 60);
}

TEST(ColourJitter, StaysWithinItsFactors) {
  const Distribution seen =
      drawn(50, [](Pixels& image, Random& random) { jitter_colours(image, 0.3, random); });
  EXPECT_EQ(seen.size(), 50U);
  Pixels grey(2, 2, 3);
  std::fill(grey.bytes.begin(), grey.bytes.end(), 100);
  for (std::uint64_t seed = 0; seed < 100; ++seed) {  // of a grey picture brightness alone
    Random random(seed);
    Pixels image = grey;
    jitter_colours(image, 0.3, random);
    EXPECT_GE(image.bytes[0], 69);
    EXPECT_LE(image.bytes[0], 130);
  }
}

TEST(ResizedCrop, HasTheAreasAndAspectsAskedFor) {
  ImageAugmentation options;
  Random random(5);
  double areas = 0, logs = 0;
  constexpr int kTimes = 4000;
  for (int i = 0; i < kTimes; ++i) {
    const Box box = draw_crop(options, 600, 600, random);
    ASSERT_TRUE(box.top >= 0 && box.left >= 0 && box.height > 0 && box.width > 0);
    ASSERT_TRUE(box.top + box.height <= 600 && box.left + box.width <= 600);
    const double aspect = double(box.width) / double(box.height);
    ASSERT_TRUE(aspect > 0.745 && aspect < 1.345) << aspect;
    areas += double(box.height * box.width) / 360000.0;
    logs += std::log(aspect);
  }
  // Boxes that stick out are drawn again: torchvision's RandomResizedCrop has this mean, too.
  EXPECT_NEAR(areas / kTimes, 0.4764, 0.015);
  EXPECT_NEAR(logs / kTimes, 0, 0.02);
}

TEST(ResizedCrop, TakesTheMiddleWhereNothingFits) {
  ImageAugmentation options;
  options.crop_scale = {1, 1};
  Random random(1);
  EXPECT_EQ(draw_crop(options, 100, 400, random), (Box{0, 133, 100, 133}));
  EXPECT_EQ(draw_crop(options, 400, 100, random), (Box{133, 0, 133, 100}));
}

TEST(Erasing, TakesBoxesOfThePublishedSizes) {
  Random random(2);
  for (int i = 0; i < 2000; ++i) {
    const Box box = draw_erased(224, 224, random);
    const double share = double(box.height * box.width) / (224.0 * 224);
    ASSERT_TRUE(share > 0.018 && share < 0.345) << share;
    const double aspect = double(box.height) / double(box.width);
    ASSERT_TRUE(aspect > 0.28 && aspect < 3.5) << aspect;
  }
}

TEST(Erasing, FillsABoxOfTheNormalisedImageWithNoise) {
  ImageAugmentation options;
  options.erase = 1;
  const PixelMap map({0.5, 0.5, 0.5}, {0.25, 0.25, 0.25});
  Pixels grey(40, 40, 3);
  std::fill(grey.bytes.begin(), grey.bytes.end(), 255);
  double sum = 0, squares = 0, count = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    std::vector<float> out(40 * 40 * 3);
    write_augmented(grey, options, {}, map, random, out.data());
    for (const float value : out) {
      if (std::abs(value - 2) < 1e-5) continue;
      sum += value;
      squares += double(value) * value;
      ++count;
    }
  }
  EXPECT_NEAR(count / 200 / 4800, 0.17, 0.03);  // the mean of 2 % and 33 %
  EXPECT_NEAR(sum / count, 0, 0.02);
  EXPECT_NEAR(squares / count, 1, 0.02);
}

TEST(Augmentation, RefusesTwoCropsAndRangesUpsideDown) {
  ImageAugmentation options;
  options.resized_crop = true;
  options.crop_padding = 4;
  EXPECT_THROW(check(options), OptionError);
  options.crop_padding = 0;
  EXPECT_NO_THROW(check(options));
  options.crop_scale = {1, 0.5};
  EXPECT_THROW(check(options), OptionError);
  options.crop_scale = {0.5};
  EXPECT_THROW(check(options), OptionError);
}

TEST(PixelMap, KnowsTheBytesOfTheMean) {
  const PixelMap map({0.485, 0.456, 0.406}, {0.229, 0.224, 0.225});
  EXPECT_EQ(map.mean_bytes(), (std::vector<std::uint8_t>{124, 116, 104}));
}

}  // namespace
}  // namespace attnlab
