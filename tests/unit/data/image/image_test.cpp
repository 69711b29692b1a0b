#include "framework/data/image/image.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/support/data_files.h"

namespace attnlab::image_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::test_pixel;

const ImageShape kShape{2, 5, 7};
const std::vector<double> kMean = {0.3, 0.6}, kDeviation = {0.2, 0.4};

LabelledImages some_images(std::size_t count) {
  LabelledImages images;
  images.begin = 3;
  images.stride = static_cast<std::size_t>(kShape.pixels()) + 1;
  images.bytes.assign(images.begin + count * images.stride, '\x7f');
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k + 1 < images.stride; ++k) {
      images.bytes[images.begin + i * images.stride + k] = static_cast<char>(test_pixel(i, k));
    }
    images.labels.push_back(static_cast<std::uint8_t>(i % 4));
  }
  return images;
}

ImageSet some_set(std::size_t train, std::size_t test) {
  ImageSet set;
  set.info.name = "toy";
  set.info.classes = 4;
  set.info.source = "nowhere";
  set.shape = kShape;
  set.train = some_images(train);
  set.test = some_images(test);
  set.mean = kMean;
  set.deviation = kDeviation;
  return set;
}

/// Pixel (c, y, x) of image i after a crop and a flip, by the definition.
double expected_pixel(std::size_t i, std::int64_t c, std::int64_t y, std::int64_t x,
                      const ImageMove& move) {
  if (move.flip) x = kShape.width - 1 - x;
  y += move.down;
  x += move.right;
  double level = 0;
  if (y >= 0 && y < kShape.height && x >= 0 && x < kShape.width) {
    level = test_pixel(i, static_cast<std::size_t>((c * kShape.height + y) * kShape.width + x));
  }
  const auto channel = static_cast<std::size_t>(c);
  return (level / 255.0 - kMean[channel]) / kDeviation[channel];
}

double largest_error(std::size_t i, const float* found, const ImageMove& move) {
  double error = 0;
  for (std::int64_t c = 0; c < kShape.channels; ++c) {
    for (std::int64_t y = 0; y < kShape.height; ++y) {
      for (std::int64_t x = 0; x < kShape.width; ++x) {
        error = std::max(error, std::abs(*found++ - expected_pixel(i, c, y, x, move)));
      }
    }
  }
  return error;
}

TEST(WriteImage, MovesMirrorsAndNormalises) {
  const LabelledImages images = some_images(1);
  const PixelMap map(kMean, kDeviation);
  std::vector<float> out(static_cast<std::size_t>(kShape.pixels()));
  // Far enough that nothing of the image is left in the crop.
  for (std::int64_t down = -6; down <= 6; ++down) {
    for (std::int64_t right = -8; right <= 8; ++right) {
      for (const bool flip : {false, true}) {
        const ImageMove move{down, right, flip};
        write_image(images.image(0), kShape, map, move, out.data());
        ASSERT_LT(largest_error(0, out.data(), move), 1e-6) << down << " " << right << " " << flip;
      }
    }
  }
}

TEST(DrawMove, CoversAllCropsAndBothMirrorings) {
  Random random(1);
  std::set<std::tuple<std::int64_t, std::int64_t, bool>> seen;
  for (int i = 0; i < 2000; ++i) {
    const ImageMove move = draw_move({.crop_padding = 2, .flip = true}, random);
    ASSERT_LE(std::max(std::abs(move.down), std::abs(move.right)), 2);
    seen.insert({move.down, move.right, move.flip});
  }
  EXPECT_EQ(seen.size(), 5U * 5U * 2U);
}

TEST(DrawMove, DoesNothingUnlessAsked) {
  Random random(1);
  for (int i = 0; i < 100; ++i) {
    const ImageMove move = draw_move({}, random);
    EXPECT_TRUE(move.down == 0 && move.right == 0 && !move.flip);
  }
}

TEST(ImageDataset, TrainsOnFewImagesOfEachClassOfThoseThatAreLeft) {
  ImageSetOptions options;
  options.validation = 12;
  const ImageDataset whole(some_set(60, 4), options, {});
  options.few_shot.per_class = 3;
  const ImageDataset few(some_set(60, 4), options, {});
  EXPECT_EQ(few.size(Split::train), 4 * 3);
  EXPECT_EQ(few.size(Split::validation), 12);
  std::vector<std::int64_t> counts(4, 0);
  for (std::int64_t i = 0; i < few.size(Split::train); ++i) {
    const NamedTensors example = few.example(Split::train, i, nullptr);
    ++counts[std::size_t(example.at("class").item<std::int64_t>())];
    bool left = false;
    for (std::int64_t j = 0; j < whole.size(Split::train); ++j) {
      left |= whole.example(Split::train, j, nullptr).at("image").equal(example.at("image"));
    }
    EXPECT_TRUE(left) << i;
  }
  EXPECT_EQ(counts, (std::vector<std::int64_t>{3, 3, 3, 3}));
}

TEST(ImageDataset, GivesNormalisedImagesWithTheirClasses) {
  const ImageDataset dataset(some_set(10, 6), {}, {});
  EXPECT_EQ(dataset.size(Split::train), 10);
  EXPECT_EQ(dataset.size(Split::validation), 0);
  EXPECT_EQ(dataset.size(Split::test), 6);
  EXPECT_EQ(dataset.info().field("image").shape, (std::vector<std::int64_t>{2, 5, 7}));
  for (std::int64_t i = 0; i < 6; ++i) {
    const NamedTensors example = dataset.example(Split::test, i, nullptr);
    const Tensor& image = example.at("image");
    ASSERT_EQ(image.sizes(), (std::vector<std::int64_t>{2, 5, 7}));
    EXPECT_LT(largest_error(static_cast<std::size_t>(i), image.data_ptr<float>(), {}), 1e-6);
    EXPECT_EQ(example.at("class").item<std::int64_t>(), i % 4);
  }
}

TEST(ImageDataset, AugmentsByTheGivenStreamAlone) {
  ImageSetOptions options;
  options.augmentation = {.crop_padding = 2, .flip = true};
  const ImageDataset dataset(some_set(4, 1), options, {});
  std::set<double> sums;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random first(seed), again(seed), reference(seed);
    const Tensor image = dataset.example(Split::train, 3, &first).at("image");
    EXPECT_TRUE(image.equal(dataset.example(Split::train, 3, &again).at("image")));
    const ImageMove move = draw_move(options.augmentation, reference);
    EXPECT_LT(largest_error(3, image.data_ptr<float>(), move), 1e-6);
    sums.insert(image.sum().item<double>());
  }
  EXPECT_GT(sums.size(), 10U);
  const Tensor plain = dataset.example(Split::train, 3, nullptr).at("image");
  EXPECT_LT(largest_error(3, plain.data_ptr<float>(), {}), 1e-6);
}

TEST(ImageDataset, HoldsOutValidationImagesWithoutOverlap) {
  ImageSetOptions options;
  options.validation = 0.25;
  // All pixels of the toy images repeat after 256 images; 200 are told apart by their first pixel.
  const ImageDataset dataset(some_set(200, 1), options, {RandomStreams(7)});
  ASSERT_EQ(dataset.size(Split::train), 150);
  ASSERT_EQ(dataset.size(Split::validation), 50);
  std::set<float> seen;
  for (const Split split : {Split::train, Split::validation}) {
    for (std::int64_t i = 0; i < dataset.size(split); ++i) {
      seen.insert(dataset.example(split, i, nullptr).at("image").data_ptr<float>()[0]);
    }
  }
  EXPECT_EQ(seen.size(), 200U);
}

std::vector<float> first_pixels(const Dataset& dataset, Split split) {
  std::vector<float> pixels;
  for (std::int64_t i = 0; i < dataset.size(split); ++i) {
    pixels.push_back(dataset.example(split, i, nullptr).at("image").data_ptr<float>()[0]);
  }
  return pixels;
}

TEST(ImageDataset, DrawsTheValidationImagesFromTheSeed) {
  ImageSetOptions options;
  options.validation = 20;  // from 1 on: a number of images
  const auto held_out = [&](std::uint64_t seed) {
    return first_pixels(ImageDataset(some_set(100, 1), options, {RandomStreams(seed)}),
                        Split::validation);
  };
  EXPECT_EQ(held_out(1).size(), 20U);
  EXPECT_EQ(held_out(1), held_out(1));
  EXPECT_NE(held_out(1), held_out(2));
}

TEST(ImageDataset, TakesTheFirstImagesUpToTheLimits) {
  ImageSetOptions options;
  options.train_limit = 3;
  options.test_limit = 100;
  const ImageDataset limited(some_set(10, 6), options, {}), whole(some_set(10, 6), {}, {});
  EXPECT_EQ(limited.size(Split::train), 3);
  EXPECT_EQ(limited.size(Split::test), 6);
  const std::vector<float> all = first_pixels(whole, Split::train);
  EXPECT_EQ(first_pixels(limited, Split::train), std::vector<float>(all.begin(), all.begin() + 3));
}

TEST(ImageDataset, MeasuresWhatItDoesNotKnow) {
  ImageSet set = some_set(50, 1);
  set.mean.clear();
  set.deviation.clear();
  const ImageDataset dataset(std::move(set), {}, {});
  double sum = 0, squares = 0, count = 0;
  for (std::int64_t i = 0; i < 50; ++i) {
    const Tensor image = dataset.example(Split::train, i, nullptr).at("image")[1];
    sum += image.sum(at::kDouble).item<double>();
    squares += (image * image).sum(at::kDouble).item<double>();
    count += static_cast<double>(image.numel());
  }
  EXPECT_NEAR(sum / count, 0, 1e-5);
  EXPECT_NEAR(squares / count, 1, 1e-5);
}

TEST(ImageDataset, PrefersTheUsersNormalisation) {
  ImageSetOptions options;
  options.mean = {0, 0};
  options.deviation = {1, 0.5};
  const ImageDataset dataset(some_set(2, 1), options, {});
  const Tensor image = dataset.example(Split::train, 1, nullptr).at("image");
  EXPECT_NEAR(image[0][0][0].item<double>(), test_pixel(1, 0) / 255.0, 1e-6);
  EXPECT_NEAR(image[1][0][0].item<double>(), test_pixel(1, 35) / 127.5, 1e-6);
}

TEST(ImageDataset, RefusesOptionsThatDoNotFit) {
  const auto refusal = [](const auto& change) {
    ImageSetOptions options;
    change(options);
    return message_of<OptionError>([&] { ImageDataset(some_set(10, 2), options, {}); });
  };
  EXPECT_THAT(refusal([](auto& o) { o.validation = 10; }),
              AllOf(HasSubstr("validation"), HasSubstr("none of the 10")));
  EXPECT_THAT(refusal([](auto& o) { o.validation = 2.5; }), HasSubstr("2.5"));
  EXPECT_THAT(refusal([](auto& o) { o.mean = {0.5}; }),
              AllOf(HasSubstr("mean"), HasSubstr("1 numbers"), HasSubstr("2 channels")));
  EXPECT_THAT(refusal([](auto& o) {
                o.deviation = {0.5, 0};
              }),
              AllOf(HasSubstr("std"), HasSubstr("above 0")));
}

TEST(ImageDataset, RefusesASplitWithoutImages) {
  EXPECT_THAT(message_of<DataError>([] { ImageDataset(some_set(3, 0), {}, {}); }),
              AllOf(HasSubstr("nowhere"), HasSubstr("test")));
}

TEST(ImageDataset, HasAFingerprintOfImagesAndLabels) {
  const std::string plain = ImageDataset(some_set(3, 2), {}, {}).info().fingerprint;
  EXPECT_EQ(plain, ImageDataset(some_set(3, 2), {}, {}).info().fingerprint);
  ImageSet other = some_set(3, 2);
  other.test.bytes[10] ^= 1;
  EXPECT_NE(plain, ImageDataset(std::move(other), {}, {}).info().fingerprint);
  other = some_set(3, 2);
  other.train.labels[1] ^= 1;
  EXPECT_NE(plain, ImageDataset(std::move(other), {}, {}).info().fingerprint);
}

}  // namespace
}  // namespace attnlab::image_test
