// Several random views of a picture, as self-supervised training compares them: DINO and iBOT.
//
//   a crop     a part of `global_scale` or `local_scale` of the area, resized (bicubic)
//              -> flip -> colour jitter -> grey -> blur -> solarised -> normalised
//   global     of the size of the dataset's own images; the first one is blurred with probability
//              blur[0] and never solarised, the others blur[1] and `solarise`
//   local      of local_size x local_size pixels, blurred with probability blur[2]
//   jitter     brightness, contrast and saturation by factors in [1 - s, 1 + s], hue turned by up
//              to `hue` of a circle, in random order, as torchvision's ColorJitter
//   masks      of each global crop's patches. One entry r of `mask_ratio` is drawn, with its s of
//              `mask_spread`, and a share in [r - s, r + s] of the N patches. block: rectangles of
//              at least (shorter side / 3)^2 patches in area (or what is left), of an aspect in
//              `mask_aspect`, log-uniform, smaller than the grid; one is laid where it hides
//              something new and not more than is left; ten tries, then it is what it is. random:
//              that many patches, without rule
//
// Fields beside the dataset's own: crop@global [global_crops, C, H, W], crop@local [local_crops, C,
// local_size, local_size], masked@global [global_crops, N] bool, true = hidden, row by row. Along
// the axis `global` an example's crops stand one after the other.
// What is drawn depends on the example's own stream; in evaluation on split and index alone.
// Source: Caron et al., DINO, ICCV 2021; Zhou et al., iBOT, ICLR 2022, and their public code
// (defaults are those of iBOT's ViT-S); blocks: Bao et al., BEiT, ICLR 2022. Pillow keeps hue in a
// byte and blurs by boxes; here neither. Cost: of each crop that of its pixels, most of it blur.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/base/random.h"
#include "framework/config/options.h"
#include "framework/contracts/dataset.h"
#include "framework/data/image/augmentation.h"
#include "framework/data/image/resize.h"

namespace attnlab {

struct MultiCropOptions {
  std::int64_t global_crops = 0;
  std::vector<double> global_scale = {0.25, 1};
  std::int64_t local_crops = 0, local_size = 96;
  std::vector<double> local_scale = {0.05, 0.25};
  std::vector<double> ratio = {3.0 / 4, 4.0 / 3};
  double flip = 0.5;
  double jitter = 0.8, brightness = 0.4, contrast = 0.4, saturation = 0.2, hue = 0.1;
  double grey = 0.2;
  std::vector<double> blur = {1, 0.1, 0.5};
  std::vector<double> blur_radius = {0.1, 2};
  double solarise = 0.2;
  std::int64_t patch_size = 0;
  std::vector<double> mask_ratio = {0, 0.3};
  std::vector<double> mask_spread = {0, 0.2};
  std::vector<double> mask_aspect = {0.3, 1 / 0.3};
  std::string mask_shape = "block";

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("global_crops", global_crops, range(0, 64),
      "large crops of each picture, of the images' own size; published: 2; 0: no crops at all");
    v("global_scale", global_scale, range(0, 1), "their least and largest share of the area");
    v("local_crops", local_crops, range(0, 64), "small crops of each picture; iBOT: 10");
    v("local_size", local_size, range(1, 4096), "their height and width in pixels");
    v("local_scale", local_scale, range(0, 1), "their least and largest share of the area");
    v("ratio", ratio, range(0.01, 100), "of all crops: least and largest width / height");
    v("flip", flip, range(0, 1), "probability of mirroring left and right");
    v("jitter", jitter, range(0, 1), "probability that colours change");
    v("brightness", brightness, range(0, 1), "it changes by up to this share");
    v("contrast", contrast, range(0, 1), "it changes by up to this share");
    v("saturation", saturation, range(0, 1), "it changes by up to this share");
    v("hue", hue, range(0, 0.5), "hue rotates by up to this share of the circle");
    v("grey", grey, range(0, 1), "probability of a grey crop");
    v("blur", blur, range(0, 1),
      "probability of blur: of the first global crop, of the other ones, of local crops");
    v("blur_radius", blur_radius, range(0.01, 100),
      "least and largest standard deviation of the blur, in pixels");
    v("solarise", solarise, range(0, 1),
      "probability that a global crop other than the first is solarised at 128");
    v("patch_size", patch_size, range(0, 4096),
      "side of masked patches, in pixels: the model's patch size; 0: no masking");
    v("mask_ratio", mask_ratio, range(0, 1),
      "shares of masked patches; each crop draws one of them");
    v("mask_spread", mask_spread, range(0, 1), "each of these shares varies by up to this");
    v("mask_aspect", mask_aspect, range(0.01, 100), "for blocks: least and largest height / width");
    v("mask_shape", mask_shape, one_of("block", "random"),
      "masked patches are neighbours, or single");
  }
};

class MultiCrop {
 public:
  /// @param image   the dataset's field `image`, [C, H, W], with mean and deviation
  /// @param filter  of resizing
  /// @throws OptionError for options that contradict each other or the images.
  MultiCrop(const MultiCropOptions& options, const FieldInfo& image, Filter filter);

  /// What an example gets, for `DatasetInfo::fields`.
  const std::vector<FieldInfo>& fields() const { return fields_; }
  /// Adds crops and masks of a picture of any size to an example. Thread-safe.
  /// @param augmentation  the example's own stream; null: evaluation
  void add(const Pixels& picture, Random* augmentation, Split split, std::int64_t index,
           NamedTensors& example) const;

 private:
  Tensor crops(const Pixels& picture, std::size_t field, const std::vector<double>& scale,
               bool global, Random& random) const;
  void change_colours(Pixels& crop, double blur, double solarise, Random& random) const;
  Tensor masks(Random& random) const;

  MultiCropOptions options_;
  PixelMap map_;
  Filter filter_;
  std::int64_t rows_ = 0, columns_ = 0;  ///< patches of a global crop; 0: none are hidden
  std::vector<FieldInfo> fields_;
};

/// Null where options ask for no crops; else their fields are added to the dataset's.
/// @throws as the constructor.
std::unique_ptr<const MultiCrop> multi_crop_of(const MultiCropOptions& options, Filter filter,
                                               DatasetInfo& info);

/// Blocks of patches as said above. @param most  patches that are hidden at most
/// @returns [rows * columns], 1 = hidden.
std::vector<std::uint8_t> draw_blocks(std::int64_t rows, std::int64_t columns, double most,
                                      const std::vector<double>& aspect, Random& random);

}  // namespace attnlab
