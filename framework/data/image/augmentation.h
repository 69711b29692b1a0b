// What a training image goes through, and the options of it that image datasets share.
//
//   crop (padded, or resized) -> flip -> policy -> colour jitter -> normalisation -> erasing
//
// the order of torchvision's and timm's pipelines.
//   resized crop: a part of `crop_scale` of the area and of an aspect in `crop_ratio`, log-uniform,
//     ten tries, then the largest part in the middle; resized by a bicubic filter. Szegedy et al.,
//     2015; torchvision's RandomResizedCrop.
//   erasing: with probability `erase` a box of 2 % to 33 % of the area, aspect 0.3 to 1/0.3,
//   becomes
//     noise N(0, 1). Zhong et al., AAAI 2020; timm's mode "pixel".
// Repeated augmentation is the trainer's: train.batching.repeat.
#pragma once

#include <string>
#include <vector>

#include "framework/data/image/policies.h"

namespace attnlab {

/// Random changes to a training image.
struct ImageAugmentation {
  std::int64_t crop_padding = 0;
  bool flip = false;
  bool resized_crop = false;
  std::vector<double> crop_scale = {0.08, 1};
  std::vector<double> crop_ratio = {3.0 / 4, 4.0 / 3};
  std::string policy = "none";
  RandAugmentOptions rand = {};
  double colour_jitter = 0;
  double erase = 0;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("crop_padding", crop_padding, range(0, 4096),
      "black pixels added on every side before a random crop of the image's own size");
    v("flip", flip, "mirror left and right with probability 1/2");
    v("resized_crop", resized_crop, "a random part of the image, resized (RandomResizedCrop)");
    v("crop_scale", crop_scale, range(0, 1),
      "for resized_crop: least and largest share of the area");
    v("crop_ratio", crop_ratio, range(0.01, 100),
      "for resized_crop: least and largest width / height");
    v("policy", policy, one_of("none", "auto_cifar10", "auto_imagenet", "rand", "three"),
      "AutoAugment as found on CIFAR-10 or ImageNet, RandAugment, or 3-Augment");
    v("rand", rand, "options of RandAugment");
    v("colour_jitter", colour_jitter, range(0, 1),
      "brightness, contrast and saturation change by up to this share, after the policy");
    v("erase", erase, range(0, 1), "probability that a box of the image becomes noise");
  }

  /// Whether there is more than a padded crop and a flip.
  bool changes_pixels() const {
    return resized_crop || policy != "none" || colour_jitter > 0 || erase > 0;
  }
};

/// @throws OptionError for options that contradict each other.
void check(const ImageAugmentation& augmentation);

/// The padded crop and the flip; nothing is drawn for what is off.
ImageMove draw_move(const ImageAugmentation& augmentation, Random& random);
/// The part of a resized crop.
Box draw_crop(const ImageAugmentation& augmentation, std::int64_t height, std::int64_t width,
              Random& random);
/// A box to erase; empty (0 x 0) where ten tries fit none.
Box draw_erased(std::int64_t height, std::int64_t width, Random& random);

/// An image, cropped already if by `draw_crop`, through all that follows.
/// @param out  [C, H, W] floats
void write_augmented(Pixels image, const ImageAugmentation& augmentation, const ImageMove& move,
                     const PixelMap& map, Random& random, float* out);

}  // namespace attnlab
