// What training images go through: the tables of policies, and what is drawn.
#include "framework/data/image/augmentation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <span>

#include "framework/base/error.h"
#include "framework/data/image/colour.h"
#include "framework/data/image/policies.h"
#include "framework/data/image/warp.h"

namespace attnlab::augmentation_test {
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

// The rows of DeepVoltaire/AutoAugment's CIFAR10Policy and ImageNetPolicy, read from there.
namespace published {

using enum Operation;

constexpr PolicyPair kCifar10[] = {
    {{{invert, .1, 7}, {contrast, .2, 6}}},          {{{rotate, .7, 2}, {translate_x, .3, 9}}},
    {{{sharpness, .8, 1}, {sharpness, .9, 3}}},      {{{shear_y, .5, 8}, {translate_y, .7, 9}}},
    {{{autocontrast, .5, 8}, {equalise, .9, 2}}},    {{{shear_y, .2, 7}, {posterise, .3, 7}}},
    {{{saturation, .4, 3}, {brightness, .6, 7}}},    {{{sharpness, .3, 9}, {brightness, .7, 9}}},
    {{{equalise, .6, 5}, {equalise, .5, 1}}},        {{{contrast, .6, 7}, {sharpness, .6, 5}}},
    {{{saturation, .7, 7}, {translate_x, .5, 8}}},   {{{equalise, .3, 7}, {autocontrast, .4, 8}}},
    {{{translate_y, .4, 3}, {sharpness, .2, 6}}},    {{{brightness, .9, 6}, {saturation, .2, 8}}},
    {{{solarise, .5, 2}, {invert, 0, 3}}},           {{{equalise, .2, 0}, {autocontrast, .6, 0}}},
    {{{equalise, .2, 8}, {equalise, .6, 4}}},        {{{saturation, .9, 9}, {equalise, .6, 6}}},
    {{{autocontrast, .8, 4}, {solarise, .2, 8}}},    {{{brightness, .1, 3}, {saturation, .7, 0}}},
    {{{solarise, .4, 5}, {autocontrast, .9, 3}}},    {{{translate_y, .9, 9}, {translate_y, .7, 9}}},
    {{{autocontrast, .9, 2}, {solarise, .8, 3}}},    {{{equalise, .8, 8}, {invert, .1, 3}}},
    {{{translate_y, .7, 9}, {autocontrast, .9, 1}}},
};
constexpr PolicyPair kImageNet[] = {
    {{{posterise, .4, 8}, {rotate, .6, 9}}},    {{{solarise, .6, 5}, {autocontrast, .6, 5}}},
    {{{equalise, .8, 8}, {equalise, .6, 3}}},   {{{posterise, .6, 7}, {posterise, .6, 6}}},
    {{{equalise, .4, 7}, {solarise, .2, 4}}},   {{{equalise, .4, 4}, {rotate, .8, 8}}},
    {{{solarise, .6, 3}, {equalise, .6, 7}}},   {{{posterise, .8, 5}, {equalise, 1, 2}}},
    {{{rotate, .2, 3}, {solarise, .6, 8}}},     {{{equalise, .6, 8}, {posterise, .4, 6}}},
    {{{rotate, .8, 8}, {saturation, .4, 0}}},   {{{rotate, .4, 9}, {equalise, .6, 2}}},
    {{{equalise, 0, 7}, {equalise, .8, 8}}},    {{{invert, .6, 4}, {equalise, 1, 8}}},
    {{{saturation, .6, 4}, {contrast, 1, 8}}},  {{{rotate, .8, 8}, {saturation, 1, 2}}},
    {{{saturation, .8, 8}, {solarise, .8, 7}}}, {{{sharpness, .4, 7}, {invert, .6, 8}}},
    {{{shear_x, .6, 5}, {equalise, 1, 9}}},     {{{saturation, .4, 0}, {equalise, .6, 3}}},
    {{{equalise, .4, 7}, {solarise, .2, 4}}},   {{{solarise, .6, 5}, {autocontrast, .6, 5}}},
    {{{invert, .6, 4}, {equalise, 1, 8}}},      {{{saturation, .6, 4}, {contrast, 1, 8}}},
    {{{equalise, .8, 8}, {equalise, .6, 3}}},
};

}  // namespace published

void expect_rows(const std::vector<PolicyPair>& found, std::span<const PolicyPair> expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t row = 0; row < found.size(); ++row) {
    for (std::size_t step = 0; step < 2; ++step) {
      EXPECT_EQ(found[row][step].operation, expected[row][step].operation) << row << ", " << step;
      EXPECT_EQ(found[row][step].probability, expected[row][step].probability) << row;
      EXPECT_EQ(found[row][step].level, expected[row][step].level) << row << ", " << step;
    }
  }
}

TEST(AutoAugment, HasThePublishedPairs) {
  expect_rows(auto_augment_policy("cifar10"), published::kCifar10);
  expect_rows(auto_augment_policy("imagenet"), published::kImageNet);
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

/// The picture after a change.
template <class Change>
std::vector<std::uint8_t> after(const Change& change) {
  Pixels image = gradient();
  change(image);
  return image.bytes;
}

std::vector<std::uint8_t> after_map(const AffineMap& map, Sampling sampling, std::uint8_t fill) {
  return warped(gradient(), map, sampling, {fill, fill, fill}).bytes;
}

using Pictures = std::set<std::vector<std::uint8_t>>;

Pictures pictures_of(const Distribution& seen) {
  Pictures out;
  for (const auto& [bytes, count] : seen) out.insert(bytes);
  return out;
}

// timm's rand-m9-mstd0.5-inc1 at level 9 of 10: turned by 27 degrees, sheared by 0.27, shifted by
// 0.405 of the size, factors 1 +- 0.81, 1 bit, threshold 256 - 230, 99 added.
TEST(RandAugment, HasThePublishedValuesAtLevelNine) {
  constexpr Sampling kCubic = Sampling::bicubic;
  const Pixels size = gradient();
  Pictures expected = {
      after([](Pixels& x) { autocontrast(x); }), after([](Pixels& x) { equalise(x); }),
      after([](Pixels& x) { invert(x); }),       after([](Pixels& x) { posterise(x, 1); }),
      after([](Pixels& x) { solarise(x, 26); }), after([](Pixels& x) { solarise_add(x, 99); })};
  for (const double sign : {-1, 1}) {
    expected.insert(after_map(rotation(sign * 27, size.height, size.width), kCubic, 128));
    expected.insert(after_map({.b = sign * 0.3 * 0.9}, kCubic, 128));
    expected.insert(after_map({.d = sign * 0.3 * 0.9}, kCubic, 128));
    expected.insert(after_map({.c = sign * 0.45 * 0.9 * double(size.width)}, kCubic, 128));
    expected.insert(after_map({.f = sign * 0.45 * 0.9 * double(size.height)}, kCubic, 128));
    const double factor = 1 + sign * 0.9 * 0.9;
    expected.insert(after([&](Pixels& x) { change_saturation(x, factor); }));
    expected.insert(after([&](Pixels& x) { change_contrast(x, factor); }));
    expected.insert(after([&](Pixels& x) { change_brightness(x, factor); }));
    expected.insert(after([&](Pixels& x) { change_sharpness(x, factor); }));
  }
  EXPECT_EQ(expected.size(), 24U);
  const RandAugmentOptions options{.layers = 1, .magnitude = 9, .deviation = 0, .probability = 1};
  const Distribution seen = drawn(2000, [&](Pixels& image, Random& random) {
    rand_augment(image, options, {128, 128, 128}, random);
  });
  EXPECT_TRUE(pictures_of(seen) == expected) << seen.size();
}

// DeepVoltaire/AutoAugment's ranges at their ends, level 9 of 0 to 9.
TEST(AutoAugment, HasThePublishedValuesAtLevelNine) {
  using enum Operation;
  const Pixels size = gradient();
  const auto seen = [](Operation operation) {
    const std::vector<PolicyPair> one = {{{{operation, 1, 9}, {invert, 0, 0}}}};
    return pictures_of(
        drawn(40, [&](Pixels& image, Random& random) { auto_augment(image, one, random); }));
  };
  const auto maps = [](const AffineMap& one, const AffineMap& other, Sampling sampling) {
    return Pictures{after_map(one, sampling, 128), after_map(other, sampling, 128)};
  };
  const auto factors = [](void (*change)(Pixels&, double)) {
    return Pictures{after([&](Pixels& x) { change(x, 1.9); }),
                    after([&](Pixels& x) { change(x, 1 - 0.9); })};
  };
  const double right = 150.0 / 331 * double(size.width);
  const double down = 150.0 / 331 * double(size.height);
  EXPECT_TRUE(seen(shear_x) == maps({.b = 0.3}, {.b = -0.3}, Sampling::bicubic));
  EXPECT_TRUE(seen(shear_y) == maps({.d = 0.3}, {.d = -0.3}, Sampling::bicubic));
  EXPECT_TRUE(seen(translate_x) == maps({.c = right}, {.c = -right}, Sampling::nearest));
  EXPECT_TRUE(seen(translate_y) == maps({.f = down}, {.f = -down}, Sampling::nearest));
  const AffineMap turned = attnlab::rotation(30, size.height, size.width);
  EXPECT_TRUE(seen(rotate) == maps(turned, turned, Sampling::nearest));
  EXPECT_TRUE(seen(solarise) == Pictures{after([](Pixels& x) { attnlab::solarise(x, 0); })});
  EXPECT_TRUE(seen(posterise) == Pictures{after([](Pixels& x) { attnlab::posterise(x, 4); })});
  EXPECT_TRUE(seen(contrast) == factors(change_contrast));
  EXPECT_TRUE(seen(saturation) == factors(change_saturation));
  EXPECT_TRUE(seen(brightness) == factors(change_brightness));
  EXPECT_TRUE(seen(sharpness) == factors(change_sharpness));
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

// mstd: levels are drawn from N(magnitude, deviation^2) and cut to 0..10. Read from what brightness
// does to a grey picture, where contrast, saturation and sharpness do nothing.
TEST(RandAugment, DrawsItsLevelsAroundTheMagnitude) {
  const RandAugmentOptions options{.layers = 1, .magnitude = 7, .deviation = 2, .probability = 1};
  double sum = 0, squares = 0;
  int read = 0, most = 0;
  for (std::uint64_t seed = 0; seed < 20000; ++seed) {
    // Only pictures that brightness changed: the operation is the first number drawn.
    if (Random(seed).below(15) != 9) continue;
    Random random(seed);
    Pixels image(2, 2, 3);
    std::fill(image.bytes.begin(), image.bytes.end(), 100);
    rand_augment(image, options, {128, 128, 128}, random);
    const double level = std::abs(image.bytes[0] / 100.0 - 1) / 0.9 * 10;
    sum += level;
    squares += level * level;
    most += level > 9.8 ? 1 : 0;
    ++read;
  }
  ASSERT_GT(read, 1000);
  // N(7, 4) cut at 10, 1.5 deviations above: mean 7 - 2 * 0.0293, and 6.7 % at the end.
  EXPECT_NEAR(sum / read, 6.94, 0.25);
  EXPECT_NEAR(std::sqrt(squares / read - sum / read * sum / read), 1.9, 0.2);
  EXPECT_NEAR(most / double(read), 0.075, 0.03);
}

/// Mean difference of neighbours in a row.
double roughness(const Pixels& image) {
  double sum = 0;
  for (std::int64_t y = 0; y < image.height; ++y) {
    for (std::int64_t i = image.channels; i < image.width * image.channels; ++i) {
      sum += std::abs(int{image.row(y)[i]} - int{image.row(y)[i - image.channels]});
    }
  }
  return sum;
}

TEST(ThreeAugment, BlursByARadiusOfATenthToTwo) {
  Pixels stripes(32, 32, 3);
  for (std::int64_t y = 0; y < 32; ++y) {
    for (std::int64_t i = 0; i < 96; ++i) {
      stripes.row(y)[i] = static_cast<std::uint8_t>(i / 3 % 2 == 0 ? 20 : 120);
    }
  }
  const auto blurred = [&](double radius) {
    Pixels image = stripes;
    blur(image, radius);
    return roughness(image);
  };
  const double least = blurred(2), most = blurred(0.1);
  double lowest = most, highest = least;
  int rough = 0, count = 0;
  for (std::uint64_t seed = 0; seed < 900; ++seed) {
    Random random(seed);
    Pixels image = stripes;  // below 128 and grey: the other two leave it as it is
    three_augment(image, random);
    if (image.bytes == stripes.bytes) continue;
    ++count;
    const double found = roughness(image);
    lowest = std::min(lowest, found);
    highest = std::max(highest, found);
    rough += found > blurred(1.05) ? 1 : 0;
  }
  EXPECT_GE(lowest, least);
  EXPECT_LE(highest, most);
  EXPECT_LE(lowest, blurred(1.9));
  EXPECT_GE(highest, blurred(0.4));
  EXPECT_GT(count, 200);
  EXPECT_NEAR(rough / double(count), 0.45, 0.12) << "half of the radii, but for those of no effect";
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

// Two halves, one coloured, one grey. Relative to the mean of the greys, contrast multiplies what
// lies between their greys, saturation what lies between red and grey; brightness changes neither.
TEST(ColourJitter, ChangesContrastAndSaturationByFactorsOfTheirRange) {
  Pixels halves(8, 8, 3);
  for (std::int64_t y = 0; y < 8; ++y) {
    for (std::int64_t x = 0; x < 8; ++x) {
      const std::uint8_t colour[] = {170, 90, 100}, grey[] = {60, 60, 60};
      std::copy_n(x < 4 ? colour : grey, 3, halves.row(y) + 3 * x);
    }
  }
  struct Relations {
    double contrast, chroma;
  };
  const auto relations = [](const Pixels& image) {
    const auto grey_of = [&](std::int64_t x) {
      const std::uint8_t* pixel = image.row(0) + 3 * x;
      return .299 * pixel[0] + .587 * pixel[1] + .114 * pixel[2];
    };
    const double mean = (grey_of(0) + grey_of(7)) / 2;
    return Relations{(grey_of(0) - grey_of(7)) / mean, (image.row(0)[0] - grey_of(0)) / mean};
  };
  const Relations before = relations(halves);
  double least[2] = {9, 9}, most[2] = {0, 0}, sums[2] = {0, 0};
  constexpr int kTimes = 400;
  for (std::uint64_t seed = 0; seed < kTimes; ++seed) {
    Random random(seed);
    Pixels image = halves;
    jitter_colours(image, 0.2, random);
    const Relations after = relations(image);
    const double contrast = after.contrast / before.contrast;
    const double factors[2] = {contrast, after.chroma / before.chroma / contrast};
    for (int i = 0; i < 2; ++i) {
      least[i] = std::min(least[i], factors[i]);
      most[i] = std::max(most[i], factors[i]);
      sums[i] += factors[i];
    }
  }
  for (int i = 0; i < 2; ++i) {  // to rounding of bytes
    EXPECT_NEAR(least[i], 0.8, 0.06) << i;
    EXPECT_NEAR(most[i], 1.2, 0.06) << i;
    EXPECT_NEAR(sums[i] / kTimes, 1, 0.03) << i;
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
  options.crop_ratio = {100, 100};  // a row at least
  EXPECT_EQ(draw_crop(options, 28, 28, random), (Box{13, 0, 1, 28}));
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
}  // namespace attnlab::augmentation_test
