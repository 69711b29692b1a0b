// Common corruptions: ImageNet-C's fifteen and its four extra ones, at five severities.
//
//   gaussian_noise  x + c N(0, 1)                     shot_noise    Poisson(c x) / c
//   impulse_noise   a share c becomes 0 or 1          speckle_noise x + c x N(0, 1)
//   defocus_blur    a disk, smoothed                  gaussian_blur
//   glass_blur      blurred, pixels copied from near  motion_blur   along a random direction
//                   ones, blurred
//   zoom_blur       mean of enlarged versions         fog           x + c plasma, darkened
//   frost           a x + b photo of frost            snow          whitened, streaks of noise
//   brightness      V of HSV + c                      saturate      S of HSV a + b
//   contrast        (x - mean) c + mean               jpeg_compression
//   elastic_transform  an affine map and a field of shifts          pixelate
//   spatter         drops of water, or mud (spatter.h)
//
// Constants are those of ImageNet-C for 224 pixels and of CIFAR-10-C for 32 (below 64 pixels by
// default). Images are cut to 0..1 and the fraction of a byte dropped, as the public code does.
// (ImageNet-C's files were then saved as JPEG of quality 85; CIFAR-10-C's were not. That is not
// done here.) Source: Hendrycks & Dietterich, ICLR 2019, hendrycks/robustness.
//
// Glass: the public code means to swap two pixels, and copies one over the other, NumPy's `x[a],
// x[b] = x[b], x[a]` being of views. So is it here.
//
// What is drawn depends on corruption, severity and the image's bytes alone, on no seed and no
// order: like the published sets, a corrupted set is one set, and every model sees the same images.
//
// constants: yam is the fog of "Your Attention Matters" (NeurIPS 2025 workshop, public code):
// CIFAR-10-C's constants at any size, the middle of the plasma, drawn behind numpy.random.seed(0),
// the training files' images first and then the test's.
//
// Cost: tests/benchmarks/corruptions.cpp measures it for each kind and size.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/base/random.h"
#include "framework/config/options.h"
#include "framework/data/image/float_image.h"
#include "framework/data/image/plasma.h"

namespace attnlab {

/// The options that datasets of images have.
struct CorruptionOptions {
  std::string corruption = "none";
  std::int64_t severity = 3;
  std::string splits = "test";
  std::string constants = "auto";
  std::string frost;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("corruption", corruption,
      one_of("none", "gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur",
             "motion_blur", "zoom_blur", "snow", "frost", "fog", "brightness", "contrast",
             "elastic_transform", "pixelate", "jpeg_compression", "speckle_noise", "gaussian_blur",
             "saturate", "spatter"),
      "corruption that is applied to images first, as in ImageNet-C");
    v("severity", severity, range(1, 5), "of the corruption");
    v("corrupted", splits, one_of("test", "train", "all"),
      "which images are corrupted; train: the training files, including validation images");
    v("corruption_constants", constants, one_of("auto", "imagenet", "cifar", "yam"),
      "ImageNet-C's or CIFAR-10-C's, by the images' size; yam: the fog of its public code");
    v("frost", frost,
      "for frost: folder with frost1.ppm to frost5.ppm (empty: $ATTNLAB_DATA/frost)");
  }

  bool any() const { return corruption != "none"; }
  /// Whether images of the test files, or of the training files, are corrupted.
  bool covers(bool test) const { return any() && (splits == "all" || (splits == "test") == test); }
};

/// ImageNet-C's fifteen, in its order.
const std::vector<std::string>& standard_corruptions();
/// Mean top-1 error of AlexNet over the five severities, what mCE divides by.
/// @throws OptionError for one that is not of the fifteen.
double alexnet_error(const std::string& corruption);

/// One corruption at one severity, for images of one size.
class Corruption {
 public:
  /// @param images  how many there are in all files, for `constants: yam`
  /// @throws OptionError; DataMissingError where the photos of frost are not there.
  Corruption(const CorruptionOptions& options, std::int64_t height, std::int64_t width,
             std::int64_t images = 0);

  /// @param image   of the size given
  /// @param number  of the image, those of the training files first; of `constants: yam` alone
  /// Thread-safe.
  void apply(Pixels& image, std::int64_t number = 0) const;

 private:
  Pixels corrupted(const Pixels& image, Random& random, const FloatImage* cloud) const;

  std::string kind_;
  std::int64_t severity_;
  bool cifar_, yam_ = false;
  std::vector<Pixels> frost_;
  std::vector<std::vector<double>> poisson_;  ///< by byte, P(count <= k) of shot noise
  std::shared_ptr<const NumpyPlasmas> clouds_;
};

}  // namespace attnlab
