#include "framework/data/image/corruption.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/data/formats/files.h"
#include "framework/data/image/corruption_kinds.h"
#include "framework/data/image/jpeg_loss.h"
#include "framework/data/image/spatter.h"

namespace attnlab {
namespace {

using corruptions::Constants;
using Severities = std::array<Constants, 5>;

// ImageNet-C, create_c/make_imagenet_c.py. Of elastic_transform the constants are times the side
// (there 244 for 224).
const std::map<std::string, Severities> kImagenet = {
    {"gaussian_noise", {{{.08}, {.12}, {.18}, {.26}, {.38}}}},
    {"shot_noise", {{{60}, {25}, {12}, {5}, {3}}}},
    {"impulse_noise", {{{.03}, {.06}, {.09}, {.17}, {.27}}}},
    {"speckle_noise", {{{.15}, {.2}, {.35}, {.45}, {.6}}}},
    {"gaussian_blur", {{{1}, {2}, {3}, {4}, {6}}}},
    {"glass_blur", {{{.7, 1, 2}, {.9, 2, 1}, {1, 2, 3}, {1.1, 3, 2}, {1.5, 4, 2}}}},
    {"defocus_blur", {{{3, .1}, {4, .5}, {6, .5}, {8, .5}, {10, .5}}}},
    {"motion_blur", {{{10, 3}, {15, 5}, {15, 8}, {15, 12}, {20, 15}}}},
    {"zoom_blur", {{{1.11, .01}, {1.16, .01}, {1.21, .02}, {1.26, .02}, {1.31, .03}}}},
    {"fog", {{{1.5, 2}, {2, 2}, {2.5, 1.7}, {2.5, 1.5}, {3, 1.4}}}},
    {"frost", {{{1, .4}, {.8, .6}, {.7, .7}, {.65, .7}, {.6, .75}}}},
    {"snow",
     {{{.1, .3, 3, .5, 10, 4, .8},
       {.2, .3, 2, .5, 12, 4, .7},
       {.55, .3, 4, .9, 12, 8, .7},
       {.55, .3, 4.5, .85, 12, 8, .65},
       {.55, .3, 2.5, .85, 12, 12, .55}}}},
    {"spatter",
     {{{.65, .3, 4, .69, .6, 0},
       {.65, .3, 3, .68, .6, 0},
       {.65, .3, 2, .68, .5, 0},
       {.65, .3, 1, .65, 1.5, 1},
       {.67, .4, 1, .65, 1.5, 1}}}},
    {"contrast", {{{.4}, {.3}, {.2}, {.1}, {.05}}}},
    {"brightness", {{{.1}, {.2}, {.3}, {.4}, {.5}}}},
    {"saturate", {{{.3, 0}, {.1, 0}, {2, 0}, {5, .1}, {20, .2}}}},
    {"jpeg_compression", {{{25}, {18}, {15}, {10}, {7}}}},
    {"pixelate", {{{.6}, {.5}, {.4}, {.3}, {.25}}}},
    {"elastic_transform",
     {{{2, .7, .1}, {2, .08, .2}, {.05, .01, .02}, {.07, .01, .02}, {.12, .01, .02}}}},
};

// CIFAR-10-C, create_c/make_cifar_c.py.
const std::map<std::string, Severities> kCifar = {
    {"gaussian_noise", {{{.04}, {.06}, {.08}, {.09}, {.1}}}},
    {"shot_noise", {{{500}, {250}, {100}, {75}, {50}}}},
    {"impulse_noise", {{{.01}, {.02}, {.03}, {.05}, {.07}}}},
    {"speckle_noise", {{{.06}, {.1}, {.12}, {.16}, {.2}}}},
    {"gaussian_blur", {{{.4}, {.6}, {.7}, {.8}, {1}}}},
    {"glass_blur", {{{.05, 1, 1}, {.25, 1, 1}, {.4, 1, 1}, {.25, 1, 2}, {.4, 1, 2}}}},
    {"defocus_blur", {{{.3, .4}, {.4, .5}, {.5, .6}, {1, .2}, {1.5, .1}}}},
    {"motion_blur", {{{6, 1}, {6, 1.5}, {6, 2}, {8, 2}, {9, 2.5}}}},
    {"zoom_blur", {{{1.06, .01}, {1.11, .01}, {1.16, .01}, {1.21, .01}, {1.26, .01}}}},
    {"fog", {{{.2, 3}, {.5, 3}, {.75, 2.5}, {1, 2}, {1.5, 1.75}}}},
    {"frost", {{{1, .2}, {1, .3}, {.9, .4}, {.85, .4}, {.75, .45}}}},
    {"snow",
     {{{.1, .2, 1, .6, 8, 3, .95},
       {.1, .2, 1, .5, 10, 4, .9},
       {.15, .3, 1.75, .55, 10, 4, .9},
       {.25, .3, 2.25, .6, 12, 6, .85},
       {.3, .3, 1.25, .65, 14, 12, .8}}}},
    {"spatter",
     {{{.62, .1, .7, .7, .5, 0},
       {.65, .1, .8, .7, .5, 0},
       {.65, .3, 1, .69, .5, 0},
       {.65, .1, .7, .69, .6, 1},
       {.65, .1, .5, .68, .6, 1}}}},
    {"contrast", {{{.75}, {.5}, {.4}, {.3}, {.15}}}},
    {"brightness", {{{.05}, {.1}, {.15}, {.2}, {.3}}}},
    {"saturate", {{{.3, 0}, {.1, 0}, {1.5, 0}, {2, .1}, {2.5, .2}}}},
    {"jpeg_compression", {{{80}, {65}, {58}, {50}, {40}}}},
    {"pixelate", {{{.95}, {.9}, {.85}, {.75}, {.65}}}},
    {"elastic_transform",
     {{{0, 0, .08}, {.05, .2, .07}, {.08, .06, .06}, {.1, .04, .05}, {.1, .03, .03}}}},
};

/// A binary PPM file (P6, 8 bits).
Pixels read_ppm(const std::string& path) {
  const std::string text = read_text(path);
  std::size_t at = 2;
  const auto number = [&]() -> std::int64_t {
    while (at < text.size() &&
           (std::isspace(static_cast<unsigned char>(text[at])) != 0 || text[at] == '#')) {
      if (text[at] == '#') at = std::min(text.find('\n', at), text.size() - 1);
      ++at;
    }
    std::int64_t value = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9' && value < 100000; ++at) {
      value = 10 * value + (text[at] - '0');
    }
    return value;
  };
  const bool right = text.rfind("P6", 0) == 0;
  const std::int64_t width = number(), height = number(), most = number();
  ++at;
  const auto size = static_cast<std::size_t>(3 * width * height);
  if (!right || most != 255 || size == 0 || text.size() < at + size) {
    throw DataError(path +
                    ": is not a whole binary PPM file of 8 bits (P6); convert the picture again");
  }
  Pixels image(height, width, 3);
  std::copy_n(text.begin() + static_cast<std::ptrdiff_t>(at), size, image.bytes.begin());
  return image;
}

/// A fifth of the size as CIFAR-10-C's code makes it, cv2.resize(fx=0.2, fy=0.2): bilinear without
/// antialias, between pixels whose middle is that of pixel (5 y + 2, 5 x + 2), so it is that pixel.
Pixels fifth(const Pixels& photo) {
  Pixels small((photo.height + 2) / 5, (photo.width + 2) / 5, photo.channels);
  for (std::int64_t y = 0; y < small.height; ++y) {
    for (std::int64_t x = 0; x < small.width; ++x) {
      const std::uint8_t* from = photo.row(5 * y + 2) + photo.channels * (5 * x + 2);
      std::copy_n(from, photo.channels, small.row(y) + photo.channels * x);
    }
  }
  return small;
}

/// The five photos that ImageNet-C's code draws from; for CIFAR-10-C a fifth of their size.
std::vector<Pixels> frost_photos(const std::string& root, bool cifar, std::int64_t height,
                                 std::int64_t width) {
  std::vector<std::string> names;
  for (int i = 1; i <= 5; ++i) names.push_back(fmt::format("frost{}.ppm", i));
  const std::string folder = find_data_folder(
      {"frost", names, root,
       "convert frost1.png, frost2.png, frost3.png, frost4.jpg and frost5.jpg of ImageNet-C's code "
       "(github.com/hendrycks/robustness, ImageNet-C/create_c) to PPM, e.g. by ImageMagick's "
       "`mogrify -format ppm frost*`, or leave frost out",
       /*packed=*/false, "frost"});
  std::vector<Pixels> photos;
  for (const std::string& name : names) {
    Pixels photo = read_ppm(folder + "/" + name);
    if (cifar) photo = fifth(photo);
    if (photo.height <= height || photo.width <= width) {
      throw DataError(fmt::format("{}/{}: is too small for images of {} x {} pixels", folder, name,
                                  height, width));
    }
    photos.push_back(std::move(photo));
  }
  return photos;
}

const std::map<std::string, double> kAlexNet = {
    {"gaussian_noise", .886428},
    {"shot_noise", .894468},
    {"impulse_noise", .922640},
    {"defocus_blur", .819880},
    {"glass_blur", .826268},
    {"motion_blur", .785948},
    {"zoom_blur", .798360},
    {"snow", .866816},
    {"frost", .826572},
    {"fog", .819324},
    {"brightness", .564592},
    {"contrast", .853204},
    {"pixelate", .717840},
    {"elastic_transform", .646056},
    {"jpeg_compression", .606500},
};

}  // namespace

const Constants& corruptions::constants_of(const std::string& corruption, bool cifar,
                                           std::int64_t severity) {
  return (cifar ? kCifar : kImagenet).at(corruption)[static_cast<std::size_t>(severity - 1)];
}

const std::vector<std::string>& standard_corruptions() {
  static const std::vector<std::string> all = {"gaussian_noise",
                                               "shot_noise",
                                               "impulse_noise",
                                               "defocus_blur",
                                               "glass_blur",
                                               "motion_blur",
                                               "zoom_blur",
                                               "snow",
                                               "frost",
                                               "fog",
                                               "brightness",
                                               "contrast",
                                               "elastic_transform",
                                               "pixelate",
                                               "jpeg_compression"};
  return all;
}

double alexnet_error(const std::string& corruption) {
  const auto found = kAlexNet.find(corruption);
  if (found != kAlexNet.end()) return found->second;
  throw OptionError("corruptions",
                    fmt::format("AlexNet's error under '{}' is not published", corruption));
}

Corruption::Corruption(const CorruptionOptions& options, std::int64_t height, std::int64_t width,
                       std::int64_t images)
    : kind_(options.corruption),
      severity_(options.severity),
      cifar_(options.constants == "auto" ? std::max(height, width) < 64
                                         : options.constants != "imagenet"),
      yam_(options.constants == "yam") {
  if (yam_ && kind_ != "fog") {
    throw OptionError("corruption_constants", "yam is for fog; take auto for " + kind_);
  }
  const Constants& c = corruptions::constants_of(kind_, cifar_, severity_);
  if (kind_ == "frost") frost_ = frost_photos(options.frost, cifar_, height, width);
  if (kind_ == "shot_noise") poisson_ = corruptions::poisson_tables(c[0]);
  if (yam_) {
    clouds_ = std::make_shared<NumpyPlasmas>(0, plasma_size(std::max(height, width)), c[1], images);
  }
}

void Corruption::apply(Pixels& image, std::int64_t number) const {
  const std::string_view bytes(reinterpret_cast<const char*>(image.bytes.data()),
                               image.bytes.size());
  Random random = RandomStreams(0).stream(
      "corruption/" + kind_, static_cast<std::uint64_t>(severity_), content_fingerprint(bytes));
  if (!yam_) {
    image = corrupted(image, random, nullptr);
    return;
  }
  const FloatImage cloud = clouds_->map(number);
  image = corrupted(image, random, &cloud);
}

Pixels Corruption::corrupted(const Pixels& image, Random& random, const FloatImage* cloud) const {
  using namespace corruptions;  // NOLINT: they are called by their own names below
  const Constants& c = constants_of(kind_, cifar_, severity_);
  if (kind_ == "shot_noise") return shot_noise(image, c[0], poisson_, random);
  if (kind_ == "jpeg_compression") return jpeg_loss(image, static_cast<int>(c[0]));
  if (kind_ == "pixelate") return pixelate(image, c[0]);
  if (kind_ == "frost") {
    return frost(image, c[0], c[1], frost_[static_cast<std::size_t>(random.below(5))], random);
  }
  FloatImage x = numbers_of(image);
  const std::int64_t side = std::max(image.height, image.width);
  if (kind_ == "gaussian_noise") gaussian_noise(x, c[0], random);
  if (kind_ == "speckle_noise") speckle_noise(x, c[0], random);
  if (kind_ == "impulse_noise") impulse_noise(x, c[0], random);
  if (kind_ == "gaussian_blur") x = gaussian(x, c[0]);
  if (kind_ == "defocus_blur") x = correlated(x, defocus_kernel(c[0], c[1]));
  if (kind_ == "glass_blur") {
    x = glass_blur(image, c[0], static_cast<std::int64_t>(c[1]), static_cast<std::int64_t>(c[2]),
                   random);
  }
  if (kind_ == "motion_blur") x = motion_blurred(x, c[0], c[1], 90 * random.uniform() - 45);
  if (kind_ == "zoom_blur") x = zoom_blur(x, c[0], c[1]);
  if (kind_ == "fog") {
    const std::int64_t size = plasma_size(side);
    const FloatImage own =
        cloud == nullptr ? plasma(size, c[1], [&random] { return random.uniform(); }) : *cloud;
    fog(x, c[0], own, cloud == nullptr ? 0 : (size - side) / 2);
  }
  if (kind_ == "snow") snow(x, c, random);
  if (kind_ == "spatter") spatter(x, c, random);
  if (kind_ == "contrast") contrast(x, c[0]);
  if (kind_ == "brightness") brightness(x, c[0]);
  if (kind_ == "saturate") saturate(x, c[0], c[1]);
  if (kind_ == "elastic_transform") {
    const double unit = static_cast<double>(side) * (cifar_ ? 1 : 244.0 / 224);
    x = elastic(x, c[0] * unit, c[1] * unit, c[2] * unit, random);
  }
  return bytes_of(x);
}

}  // namespace attnlab
