// Crops and masks of self-supervised training: what is drawn, and what is refused.
#include "framework/data/image/multi_crop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "framework/data/image/colour.h"
#include "tests/support/message_of.h"

namespace attnlab::multi_crop_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

constexpr std::int64_t kHeight = 24, kWidth = 32;

/// Colours that nothing leaves as they are.
Pixels picture(std::int64_t height = kHeight, std::int64_t width = kWidth) {
  Pixels image(height, width, 3);
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      image.row(y)[3 * x] = static_cast<std::uint8_t>(40 + 6 * x);
      image.row(y)[3 * x + 1] = static_cast<std::uint8_t>(200 - 7 * y);
      image.row(y)[3 * x + 2] = static_cast<std::uint8_t>((x * x + 3 * y * y) % 251);
    }
  }
  return image;
}

/// [3, 24, 32]; a byte b is b / 255 - 1/2, four times.
FieldInfo images() {
  FieldInfo field{"image", {3, kHeight, kWidth}, at::kFloat};
  field.mean = {0.5, 0.5, 0.5};
  field.deviation = {0.25, 0.25, 0.25};
  return field;
}

/// Two whole crops that nothing is done to, and no local ones.
MultiCropOptions plain() {
  MultiCropOptions o;
  o.global_crops = 2;
  o.global_scale = {1, 1};
  o.ratio = {double(kWidth) / double(kHeight), double(kWidth) / double(kHeight)};
  o.flip = o.jitter = o.grey = o.solarise = 0;
  o.blur = {0, 0, 0};
  return o;
}

NamedTensors made(const MultiCropOptions& options, std::uint64_t seed,
                  const Pixels& image = picture()) {
  Random random(seed);
  NamedTensors example;
  MultiCrop(options, images(), Filter::bicubic).add(image, &random, Split::train, 0, example);
  return example;
}

/// [3, H, W], as a plain crop of these bytes is written.
Tensor written(const Pixels& image) {
  Tensor out = at::empty({3, image.height, image.width});
  for (std::int64_t c = 0; c < 3; ++c) {
    for (std::int64_t y = 0; y < image.height; ++y) {
      for (std::int64_t x = 0; x < image.width; ++x) {
        out[c][y][x] = (image.row(y)[3 * x + c] / 255.0 - 0.5) / 0.25;
      }
    }
  }
  return out;
}

double distance(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

TEST(MultiCrop, GivesTheFieldsThatItNames) {
  MultiCropOptions o = plain();
  o.local_crops = 3;
  o.local_size = 8;
  o.patch_size = 4;
  const MultiCrop crops(o, images(), Filter::bicubic);
  Random random(1);
  NamedTensors example;
  crops.add(picture(), &random, Split::train, 0, example);
  ASSERT_EQ(crops.fields().size(), 3U);
  for (const FieldInfo& field : crops.fields()) {
    EXPECT_EQ(example.at(field.name).sizes(), at::IntArrayRef(field.shape)) << field.name;
    EXPECT_EQ(example.at(field.name).scalar_type(), field.dtype) << field.name;
  }
  EXPECT_EQ(example.at("crop@global").sizes(), at::IntArrayRef({2, 3, kHeight, kWidth}));
  EXPECT_EQ(example.at("crop@local").sizes(), at::IntArrayRef({3, 3, 8, 8}));
  EXPECT_EQ(example.at("masked@global").sizes(), at::IntArrayRef({2, 6 * 8}));
  DatasetInfo info;
  info.fields = {images()};
  EXPECT_TRUE(multi_crop_of(MultiCropOptions(), Filter::bicubic, info) == nullptr);
  EXPECT_EQ(info.fields.size(), 1U);
  EXPECT_TRUE(multi_crop_of(o, Filter::bicubic, info) != nullptr);
  EXPECT_EQ(info.fields.size(), 4U);
}

TEST(MultiCrop, IsAFunctionOfTheExamplesStream) {
  MultiCropOptions o;
  o.global_crops = 2;
  o.local_crops = 2;
  o.local_size = 8;
  o.patch_size = 4;
  const MultiCrop crops(o, images(), Filter::bicubic);
  const auto add = [&](Random* random, Split split, std::int64_t index) {
    NamedTensors example;
    crops.add(picture(40, 30), random, split, index, example);
    return example;
  };
  const auto same = [](const NamedTensors& a, const NamedTensors& b) {
    for (const auto& [name, tensor] : a) {
      if (!tensor.equal(b.at(name))) return false;
    }
    return true;
  };
  Random one(5), again(5), other(6);
  const NamedTensors first = add(&one, Split::train, 3);
  add(nullptr, Split::test, 0);
  EXPECT_TRUE(same(first, add(&again, Split::train, 4)));
  EXPECT_FALSE(same(first, add(&other, Split::train, 3)));
  // Without a stream: split and index decide.
  const NamedTensors fixed = add(nullptr, Split::test, 7);
  EXPECT_TRUE(same(fixed, add(nullptr, Split::test, 7)));
  EXPECT_FALSE(same(fixed, add(nullptr, Split::test, 8)));
  EXPECT_FALSE(same(fixed, add(nullptr, Split::validation, 7)));
  for (const char* name : {"crop@global", "crop@local"}) {
    EXPECT_GE(first.at(name).min().item<double>(), -2.0001) << name;
    EXPECT_LE(first.at(name).max().item<double>(), 2.0001) << name;
    EXPECT_FALSE(first.at(name)[0].equal(first.at(name)[1])) << name;
  }
}

TEST(MultiCrop, TakesTheWholePictureWhereNothingElseIsAsked) {
  const Tensor crops = made(plain(), 3).at("crop@global");
  EXPECT_LT(distance(crops[0], written(picture())), 1e-5);
  EXPECT_LT(distance(crops[1], written(picture())), 1e-5);
  MultiCropOptions o = plain();
  o.flip = 1;
  EXPECT_LT(distance(made(o, 3).at("crop@global")[1], written(picture()).flip(2)), 1e-5);
}

TEST(MultiCrop, TakesPartsOfTheAreaThatIsSaid) {
  // Rows and columns rise: what a crop's corners show is how large the part was.
  Pixels ramp(200, 200, 3);
  for (std::int64_t y = 0; y < 200; ++y) {
    for (std::int64_t x = 0; x < 200; ++x) {
      ramp.row(y)[3 * x] = static_cast<std::uint8_t>(x);
      ramp.row(y)[3 * x + 1] = static_cast<std::uint8_t>(y);
    }
  }
  MultiCropOptions o = plain();
  o.global_scale = {0.25, 0.5};
  o.ratio = {3.0 / 4, 4.0 / 3};
  double least = 1, most = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Tensor crop = (made(o, seed, ramp).at("crop@global")[0] * 0.25 + 0.5) * 255;
    // Between the middles of the outermost pixels lie all but one pixel's width.
    const double width =
        (crop[0][12][kWidth - 1] - crop[0][12][0]).item<double>() / (1 - 1 / double(kWidth));
    const double height =
        (crop[1][kHeight - 1][12] - crop[1][0][12]).item<double>() / (1 - 1 / double(kHeight));
    const double area = width * height / (200 * 200), aspect = width / height;
    least = std::min(least, area);
    most = std::max(most, area);
    EXPECT_GT(aspect, 0.7);
    EXPECT_LT(aspect, 1.4);
  }
  EXPECT_GT(least, 0.22);
  EXPECT_LT(least, 0.32);
  EXPECT_GT(most, 0.43);
  EXPECT_LT(most, 0.53);
}

TEST(MultiCrop, ChangesTheColoursOfTheCropsThatItSays) {
  const Tensor whole = written(picture());
  MultiCropOptions o = plain();
  o.local_crops = 1;
  o.local_size = kHeight;
  o.local_scale = {1, 1};
  o.solarise = 1;
  Pixels solarised = picture();
  for (std::uint8_t& byte : solarised.bytes) {
    if (byte >= 128) byte = static_cast<std::uint8_t>(255 - byte);
  }
  NamedTensors example = made(o, 2);
  EXPECT_LT(distance(example.at("crop@global")[0], whole), 1e-5);
  EXPECT_LT(distance(example.at("crop@global")[1], written(solarised)), 1e-5);
  const Tensor local = example.at("crop@local");
  o.solarise = 0;
  EXPECT_TRUE(made(o, 2).at("crop@local").equal(local)) << "local crops are not solarised";

  for (const std::size_t kind : {0, 1, 2}) {
    MultiCropOptions blurred = o;
    blurred.blur[kind] = 1;
    blurred.blur_radius = {1.5, 1.5};
    example = made(blurred, 2);
    Pixels smooth = picture();
    blur(smooth, 1.5);
    EXPECT_LT(distance(example.at("crop@global")[0], kind == 0 ? written(smooth) : whole), 1e-5);
    EXPECT_LT(distance(example.at("crop@global")[1], kind == 1 ? written(smooth) : whole), 1e-5);
    EXPECT_EQ(example.at("crop@local").equal(local), kind != 2);
  }

  MultiCropOptions grey = o;
  grey.grey = 1;
  for (const char* name : {"crop@global", "crop@local"}) {
    const Tensor crops = made(grey, 2).at(name);
    EXPECT_TRUE(crops.select(1, 0).equal(crops.select(1, 2))) << name;
  }
}

TEST(MultiCrop, ChangesColoursByUpToWhatIsSaid) {
  MultiCropOptions o = plain();
  o.jitter = 1;
  o.contrast = o.saturation = o.hue = 0;
  Pixels flat(kHeight, kWidth, 3);
  std::fill(flat.bytes.begin(), flat.bytes.end(), std::uint8_t{100});
  double least = 1, most = 1;
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    const Tensor crop = (made(o, seed, flat).at("crop@global")[0] * 0.25 + 0.5) * 255;
    EXPECT_LT((crop.max() - crop.min()).item<double>(), 1e-3);
    const double factor = crop[0][0][0].item<double>() / 100;
    least = std::min(least, factor);
    most = std::max(most, factor);
  }
  EXPECT_NEAR(least, 0.6, 0.06);
  EXPECT_NEAR(most, 1.4, 0.06);
  // Hue: up to a tenth of a circle either way, the largest and the smallest channel stay.
  o.brightness = 0;
  o.hue = 0.1;
  for (std::size_t i = 0; i < flat.bytes.size(); i += 3) flat.bytes[i] = 200;
  std::set<std::int64_t> seen;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Tensor crop = ((made(o, seed, flat).at("crop@global")[0] * 0.25 + 0.5) * 255).round();
    EXPECT_EQ(crop.max().item<double>(), 200);
    EXPECT_EQ(crop.min().item<double>(), 100);
    // Red turns towards yellow (green rises) or towards magenta (blue does), by at most 36 of 60
    // degrees' worth of 100.
    const auto rise = static_cast<std::int64_t>((crop[1][0][0] - crop[2][0][0]).item<double>());
    EXPECT_LE(std::abs(rise), 60);
    seen.insert(rise);
  }
  EXPECT_LT(*seen.begin(), -30);
  EXPECT_GT(*seen.rbegin(), 30);
}

/// The rule of iBOT's loader, in sets of cells, with the same draws.
std::set<std::pair<std::int64_t, std::int64_t>> expected_blocks(std::int64_t rows,
                                                                std::int64_t columns, double high,
                                                                Random& random) {
  std::set<std::pair<std::int64_t, std::int64_t>> mask;
  while (double(mask.size()) < high) {
    const double left_over = high - double(mask.size());
    const std::size_t before = mask.size();
    for (int attempt = 0; attempt < 10; ++attempt) {
      const double low = std::pow(std::floor(double(std::min(rows, columns)) / 3), 2);
      const double area = low + (left_over - low) * random.uniform();
      const double low_aspect = std::log(0.3), high_aspect = std::log(1 / 0.3);
      const double aspect = std::exp(low_aspect + (high_aspect - low_aspect) * random.uniform());
      const auto h = std::int64_t(std::round(std::sqrt(area * aspect)));
      const auto w = std::int64_t(std::round(std::sqrt(area / aspect)));
      if (w >= columns || h >= rows) continue;
      const std::int64_t top = random.below(rows - h + 1), left = random.below(columns - w + 1);
      std::set<std::pair<std::int64_t, std::int64_t>> block;
      for (std::int64_t y = top; y < top + h; ++y) {
        for (std::int64_t x = left; x < left + w; ++x) {
          if (mask.count({y, x}) == 0) block.insert({y, x});
        }
      }
      if (block.empty() || double(block.size()) > left_over) continue;
      mask.insert(block.begin(), block.end());
      break;
    }
    if (mask.size() == before) break;
  }
  return mask;
}

TEST(BlockMasks, FollowThePublishedRule) {
  using Grid = std::pair<std::int64_t, std::int64_t>;
  for (const auto& [rows, columns] : {Grid{14, 14}, Grid{8, 8}, Grid{6, 9}}) {
    for (const double ratio : {0.0, 0.1, 0.3, 0.5, 0.95}) {
      double hidden = 0;
      const double most = ratio * double(rows * columns);
      for (std::uint64_t seed = 0; seed < 40; ++seed) {
        Random random(seed), other(seed);
        const std::vector<std::uint8_t> mask =
            draw_blocks(rows, columns, most, {0.3, 1 / 0.3}, random);
        const auto expected = expected_blocks(rows, columns, most, other);
        ASSERT_EQ(mask.size(), std::size_t(rows * columns));
        std::size_t count = 0;
        for (std::int64_t i = 0; i < rows * columns; ++i) {
          const bool is = mask[std::size_t(i)] != 0;
          count += is ? 1 : 0;
          EXPECT_EQ(is, expected.count({i / columns, i % columns}) > 0) << rows << " " << seed;
        }
        EXPECT_LE(double(count), most);
        hidden += double(count) / 40;
      }
      EXPECT_GE(hidden, 0.85 * most - 1) << rows << " x " << columns << ", " << ratio;
    }
  }
}

TEST(MultiCrop, HidesTheSharesThatAreSaid) {
  MultiCropOptions o = plain();
  o.patch_size = 4;  // 6 x 8
  double without = 0, most = 0, sum = 0;
  constexpr int kTimes = 300;
  for (std::uint64_t seed = 0; seed < kTimes; ++seed) {
    const Tensor counts = made(o, seed).at("masked@global").to(at::kDouble).sum(1);
    without += counts.eq(0).sum().item<double>() / (2 * kTimes);
    sum += counts.sum().item<double>() / (2 * kTimes);
    most = std::max(most, counts.max().item<double>());
  }
  EXPECT_NEAR(without, 0.5, 0.08) << "half of the crops draw a ratio of 0";
  EXPECT_NEAR(sum, 0.15 * 48, 1.2);
  EXPECT_LE(most, 0.5 * 48);
  EXPECT_GT(most, 0.4 * 48);

  o.mask_ratio = {0.25};
  o.mask_spread = {0};
  o.mask_shape = "random";
  const Tensor masked = made(o, 1).at("masked@global");
  EXPECT_EQ(masked.sum(1).min().item<double>(), 12);
  EXPECT_EQ(masked.sum(1).max().item<double>(), 12);
  EXPECT_FALSE(masked[0].equal(masked[1]));
}

TEST(MultiCrop, RefusesWhatCannotBe) {
  const auto refusal = [](const std::function<void(MultiCropOptions&)>& change) {
    MultiCropOptions o = plain();
    o.patch_size = 4;
    change(o);
    return message_of<OptionError>([&] { MultiCrop(o, images(), Filter::bicubic); });
  };
  EXPECT_THAT(refusal([](auto& o) { o.global_crops = 1; }),
              AllOf(HasSubstr("multi_crop.global_crops: 1"), HasSubstr("take 2 or more")));
  EXPECT_THAT(refusal([](auto& o) { o.local_crops = 1; }),
              mentions("multi_crop.local_size:", "96", "24 x 32", "at most 24"));
  EXPECT_THAT(refusal([](auto& o) { o.patch_size = 5; }),
              AllOf(HasSubstr("multi_crop.patch_size: 5 does not divide"), HasSubstr("24 x 32")));
  EXPECT_THAT(refusal([](auto& o) {
                o.mask_ratio = {0.1, 0.9};
              }),
              AllOf(HasSubstr("multi_crop.mask_ratio: 0.9 may become 0.7 to 1.1"),
                    HasSubstr("make mask_spread smaller")));
  EXPECT_THAT(refusal([](auto& o) { o.mask_spread = {0.1, 0.2}; }), HasSubstr("-0.1"));
  EXPECT_THAT(refusal([](auto& o) { o.mask_ratio = {0.1}; }),
              HasSubstr("multi_crop.mask_spread: has 2 numbers and mask_ratio 1"));
  EXPECT_THAT(refusal([](auto& o) { o.mask_ratio = {}; }),
              mentions("multi_crop.mask_ratio:", "is empty"));
  EXPECT_THAT(refusal([](auto& o) {
                o.global_scale = {1, 0.5};
              }),
              mentions("multi_crop.global_scale:", "two numbers above 0"));
  EXPECT_THAT(refusal([](auto& o) { o.local_scale = {0, 1}; }), HasSubstr("local_scale"));
  EXPECT_THAT(refusal([](auto& o) { o.blur = {1}; }), HasSubstr("blur: needs three numbers"));
  EXPECT_THAT(refusal([](auto& o) { o.blur_radius = {}; }), HasSubstr("blur_radius"));
  EXPECT_THAT(refusal([](auto& o) { o.mask_aspect = {2, 1}; }), HasSubstr("mask_aspect"));
}

}  // namespace
}  // namespace attnlab::multi_crop_test
