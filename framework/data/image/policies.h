// Random changes of colours and shapes that training images go through: AutoAugment, RandAugment,
// 3-Augment, colour jitter. What each operation does to a picture: colour.h, warp.h.
//
//   AutoAugment: one of 25 pairs of operations, each with a probability and a level of 0 to 9 of
//   its
//     own. Cubuk et al., CVPR 2019. Levels, signs and fill (128) as the public code that most
//     papers use has them (DeepVoltaire/AutoAugment): shear 0 to 0.3, shift 0 to 150/331 of the
//     size, rotation 0 to 30 degrees and always positive, factors 1 +- 0.9, bits 8 to 4, threshold
//     256 to 0.
//   RandAugment: `layers` of 15 operations drawn with replacement, each applied with a probability,
//     at a level drawn from N(magnitude, deviation^2) and cut to 0..10. Cubuk et al., 2020; ranges
//     as timm's "rand-m9-mstd0.5-inc1" has them: all operations grow with the level. The fill is
//     the data's mean.
//   3-Augment: grey, solarised at 128, or blurred (radius 0.1 to 2), one of the three always.
//     Touvron et al., DeiT III, ECCV 2022.
//   Colour jitter: brightness, contrast and saturation by factors in [1 - s, 1 + s], in random
//     order, as torchvision's ColorJitter(s, s, s).
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "framework/base/random.h"
#include "framework/config/options.h"
#include "framework/data/image/pixels.h"

namespace attnlab {

struct RandAugmentOptions {
  std::int64_t layers = 2;
  double magnitude = 9;
  double deviation = 0.5;
  double probability = 0.5;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("layers", layers, range(0, 15), "operations applied to an image");
    v("magnitude", magnitude, range(0, 10), "mean level of an operation");
    v("deviation", deviation, range(0, 10), "standard deviation of the level");
    v("probability", probability, range(0, 1), "probability that a drawn operation is applied");
  }
};

enum class Operation {
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  autocontrast,
  invert,
  equalise,
  solarise,
  solarise_add,
  posterise,
  contrast,
  saturation,
  brightness,
  sharpness,
};

/// One operation of AutoAugment.
struct PolicyStep {
  Operation operation;
  double probability;
  int level;  ///< 0 to 9
};
using PolicyPair = std::array<PolicyStep, 2>;

/// The 25 pairs that were found on "cifar10" or "imagenet".
const std::vector<PolicyPair>& auto_augment_policy(std::string_view data);

void auto_augment(Pixels& image, const std::vector<PolicyPair>& policy, Random& random);
/// @param fill  one byte for each channel, of what comes from outside the image
void rand_augment(Pixels& image, const RandAugmentOptions& options,
                  const std::vector<std::uint8_t>& fill, Random& random);
void three_augment(Pixels& image, Random& random);
void jitter_colours(Pixels& image, double strength, Random& random);

}  // namespace attnlab
