#include "framework/data/image/policies.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "framework/data/image/colour.h"
#include "framework/data/image/warp.h"

namespace attnlab {
namespace {

using enum Operation;

/// How pixels between pixels, and those from outside, come about.
struct WarpStyle {
  Sampling shear, others;
  std::vector<std::uint8_t> fill;
};

/// @param value  what the operation takes: a share of the size, degrees, a factor, bits, a
/// threshold
void apply(Pixels& image, Operation operation, double value, const WarpStyle& style) {
  const auto warp = [&](const AffineMap& map, Sampling sampling) {
    image = warped(image, map, sampling, style.fill);
  };
  switch (operation) {
    case shear_x:
      return warp({.b = value}, style.shear);
    case shear_y:
      return warp({.d = value}, style.shear);
    case translate_x:
      return warp({.c = value * double(image.width)}, style.others);
    case translate_y:
      return warp({.f = value * double(image.height)}, style.others);
    case rotate:
      return warp(rotation(value, image.height, image.width), style.others);
    case autocontrast:
      return attnlab::autocontrast(image);
    case invert:
      return attnlab::invert(image);
    case equalise:
      return attnlab::equalise(image);
    case solarise:
      return attnlab::solarise(image, static_cast<int>(std::ceil(value)));
    case solarise_add:
      return attnlab::solarise_add(image, static_cast<int>(value));
    case posterise:
      return attnlab::posterise(image, static_cast<int>(value));
    case contrast:
      return change_contrast(image, value);
    case saturation:
      return change_saturation(image, value);
    case brightness:
      return change_brightness(image, value);
    case sharpness:
      return change_sharpness(image, value);
  }
}

double with_sign(double value, Random& random) { return random.below(2) == 1 ? -value : value; }

double auto_value(const PolicyStep& step, Random& random) {
  const double share = step.level / 9.0;
  switch (step.operation) {
    case shear_x:
    case shear_y:
      return with_sign(0.3 * share, random);
    case translate_x:
    case translate_y:
      return with_sign(150.0 / 331.0 * share, random);
    case rotate:
      return 30 * share;
    case solarise:
      return 256 - 256 * share;
    case posterise:
      return std::round(8 - 4 * share);
    case contrast:
    case saturation:
    case brightness:
    case sharpness:
      return 1 + with_sign(0.9 * share, random);
    default:
      return 0;
  }
}

double rand_value(Operation operation, double level, Random& random) {
  const double share = level / 10;
  switch (operation) {
    case shear_x:
    case shear_y:
      return with_sign(0.3 * share, random);
    case translate_x:
    case translate_y:
      return with_sign(0.45 * share, random);
    case rotate:
      return with_sign(30 * share, random);
    case solarise:
      return 256 - std::floor(256 * share);
    case solarise_add:
      return std::floor(110 * share);
    case posterise:
      return 4 - std::floor(4 * share);
    case contrast:
    case saturation:
    case brightness:
    case sharpness:
      return 1 + with_sign(0.9 * share, random);
    default:
      return 0;
  }
}

constexpr std::array kRandOperations = {
    autocontrast, equalise,   invert,    rotate,  posterise, solarise,    solarise_add, saturation,
    contrast,     brightness, sharpness, shear_x, shear_y,   translate_x, translate_y};

const std::vector<PolicyPair> kCifar10 = {
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

const std::vector<PolicyPair> kImageNet = {
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

}  // namespace

const std::vector<PolicyPair>& auto_augment_policy(std::string_view data) {
  return data == "cifar10" ? kCifar10 : kImageNet;
}

void auto_augment(Pixels& image, const std::vector<PolicyPair>& policy, Random& random) {
  const WarpStyle style{Sampling::bicubic, Sampling::nearest,
                        std::vector<std::uint8_t>(static_cast<std::size_t>(image.channels), 128)};
  const auto drawn = random.below(static_cast<std::int64_t>(policy.size()));
  for (const PolicyStep& step : policy[static_cast<std::size_t>(drawn)]) {
    if (random.uniform() >= step.probability) continue;
    apply(image, step.operation, auto_value(step, random), style);
  }
}

void rand_augment(Pixels& image, const RandAugmentOptions& options,
                  const std::vector<std::uint8_t>& fill, Random& random) {
  const WarpStyle style{Sampling::bicubic, Sampling::bicubic, fill};
  std::vector<Operation> drawn;
  for (std::int64_t i = 0; i < options.layers; ++i) {
    drawn.push_back(kRandOperations[static_cast<std::size_t>(
        random.below(static_cast<std::int64_t>(kRandOperations.size())))]);
  }
  for (const Operation operation : drawn) {
    if (random.uniform() >= options.probability) continue;
    const double level =
        std::clamp(options.magnitude + options.deviation * random.normal(), 0.0, 10.0);
    apply(image, operation, rand_value(operation, level, random), style);
  }
}

void three_augment(Pixels& image, Random& random) {
  switch (random.below(3)) {
    case 0:
      return make_grey(image);
    case 1:
      return attnlab::solarise(image, 128);
    default:
      return blur(image, 0.1 + 1.9 * random.uniform());
  }
}

void jitter_colours(Pixels& image, double strength, Random& random) {
  std::array<int, 3> order = {0, 1, 2};
  for (std::int64_t i = 2; i > 0; --i) {
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(random.below(i + 1))]);
  }
  const double least = std::max(0.0, 1 - strength);
  for (const int which : order) {
    const double factor = least + (1 + strength - least) * random.uniform();
    if (which == 0) change_brightness(image, factor);
    if (which == 1) change_contrast(image, factor);
    if (which == 2) change_saturation(image, factor);
  }
}

}  // namespace attnlab
