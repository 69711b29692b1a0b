#include "framework/data/image/augmentation.h"

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"

namespace attnlab {
namespace {

constexpr int kTries = 10;

double log_between(double low, double high, Random& random) {
  return std::exp(random.uniform(std::log(low), std::log(high)));
}

/// Sides of a box of this area and aspect (width over height, or its inverse: the caller's).
std::int64_t side(double area, double aspect) { return std::llround(std::sqrt(area * aspect)); }

void check_pair(const char* option, const std::vector<double>& pair) {
  if (pair.size() == 2 && pair[0] > 0 && pair[0] <= pair[1]) return;
  throw OptionError(option, "must be two numbers above 0, the least first");
}

/// The largest box in the middle with an aspect in the range.
Box central(const std::vector<double>& ratio, std::int64_t height, std::int64_t width) {
  const double aspect = static_cast<double>(width) / static_cast<double>(height);
  Box box{0, 0, height, width};
  const auto rounded = [](double length) {
    return std::max<std::int64_t>(1, std::llround(length));
  };
  if (aspect < ratio[0]) box.height = rounded(static_cast<double>(width) / ratio[0]);
  if (aspect > ratio[1]) box.width = rounded(static_cast<double>(height) * ratio[1]);
  box.top = (height - box.height) / 2;
  box.left = (width - box.width) / 2;
  return box;
}

void erase_some(double probability, const Pixels& image, Random& random, float* out) {
  if (random.uniform() >= probability) return;
  const Box box = draw_erased(image.height, image.width, random);
  for (std::int64_t c = 0; c < image.channels; ++c) {
    for (std::int64_t y = box.top; y < box.top + box.height; ++y) {
      float* row = out + (c * image.height + y) * image.width + box.left;
      for (std::int64_t x = 0; x < box.width; ++x) row[x] = static_cast<float>(random.normal());
    }
  }
}

}  // namespace

void check(const ImageAugmentation& augmentation) {
  check_pair("augmentation.crop_scale", augmentation.crop_scale);
  check_pair("augmentation.crop_ratio", augmentation.crop_ratio);
  if (augmentation.resized_crop && augmentation.crop_padding > 0) {
    throw OptionError("augmentation.resized_crop",
                      "is one crop and crop_padding another; take one of them");
  }
}

ImageMove draw_move(const ImageAugmentation& augmentation, Random& random) {
  ImageMove move;
  if (augmentation.crop_padding > 0) {
    move.down = random.below(2 * augmentation.crop_padding + 1) - augmentation.crop_padding;
    move.right = random.below(2 * augmentation.crop_padding + 1) - augmentation.crop_padding;
  }
  if (augmentation.flip) move.flip = random.below(2) == 1;
  return move;
}

Box draw_crop(const ImageAugmentation& augmentation, std::int64_t height, std::int64_t width,
              Random& random) {
  const std::vector<double>&scale = augmentation.crop_scale, &ratio = augmentation.crop_ratio;
  const auto whole = static_cast<double>(height * width);
  for (int i = 0; i < kTries; ++i) {
    const double area = whole * random.uniform(scale[0], scale[1]);
    const double aspect = log_between(ratio[0], ratio[1], random);
    const std::int64_t w = side(area, aspect), h = side(area, 1 / aspect);
    if (w <= 0 || h <= 0 || w > width || h > height) continue;
    const std::int64_t top = random.below(height - h + 1);
    return {top, random.below(width - w + 1), h, w};
  }
  return central(ratio, height, width);
}

Box draw_erased(std::int64_t height, std::int64_t width, Random& random) {
  const auto whole = static_cast<double>(height * width);
  for (int i = 0; i < kTries; ++i) {
    const double area = whole * random.uniform(0.02, 1.0 / 3);
    const double aspect = log_between(0.3, 1 / 0.3, random);
    const std::int64_t h = side(area, aspect), w = side(area, 1 / aspect);
    if (w >= width || h >= height) continue;
    const std::int64_t top = random.below(height - h + 1);
    return {top, random.below(width - w + 1), h, w};
  }
  return {};
}

void write_augmented(Pixels image, const ImageAugmentation& augmentation, const ImageMove& move,
                     const PixelMap& map, Random& random, float* out) {
  // Nothing looks at the colours in between: the image is mirrored while it is written.
  const bool plain = augmentation.policy == "none" && augmentation.colour_jitter == 0;
  const bool flip_late = plain && move.down == 0 && move.right == 0 && move.flip;
  if (move.moves() && !flip_late) image = moved(image, move);
  if (augmentation.policy == "auto_cifar10") {
    auto_augment(image, auto_augment_policy("cifar10"), random);
  } else if (augmentation.policy == "auto_imagenet") {
    auto_augment(image, auto_augment_policy("imagenet"), random);
  } else if (augmentation.policy == "rand") {
    rand_augment(image, augmentation.rand, map.mean_bytes(), random);
  } else if (augmentation.policy == "three") {
    three_augment(image, random);
  }
  if (augmentation.colour_jitter > 0) jitter_colours(image, augmentation.colour_jitter, random);
  write_image(image, map, flip_late, out);
  if (augmentation.erase > 0) erase_some(augmentation.erase, image, random, out);
}

}  // namespace attnlab
