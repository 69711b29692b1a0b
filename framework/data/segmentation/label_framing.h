// Which part of a picture and of its label map a model sees, and at which size.
//
//   evaluation: the whole picture, resized by  min(long_side / its longer side,
//               short_side / its shorter side);  the label map stays as it is stored
//   training:   both sides of that box times a factor in `ratio` first; of the result a random
//               square of `crop` pixels, in which no class has more than `class_share` of what is
//               labelled, or else the eleventh one drawn; mirrored with probability 1/2
//
// Where a side is shorter than the crop, it is padded below and on the right: the picture with 0
// behind its normalisation, the label map with "no label".
// Source: mmsegmentation's Resize (ratio_range, keep_ratio), RandomCrop (cat_max_ratio) and Pad, by
// which Strudel et al., Segmenter, ICCV 2021, trains; the share is that of PSPNet's public code.
#pragma once

#include "framework/base/random.h"
#include "framework/config/options.h"
#include "framework/data/segmentation/label_map.h"

namespace attnlab {

struct LabelFramingOptions {
  std::int64_t short_side = 0, long_side = 0, crop = 0;
  std::vector<double> ratio = {1, 1};
  double class_share = 0.75;
  bool flip = false;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("short_side", short_side, range(0, 16384),
      "the shorter side of a picture as the model sees it, in pixels; 0: as it is stored");
    v("long_side", long_side, range(0, 16384),
      "the longer side is at most this, whatever short_side says; 0: no limit");
    v("crop", crop, range(0, 8192),
      "side of training crops (squares), in pixels; 0: the whole picture");
    v("ratio", ratio, range(0.05, 20), "least and largest factor of the size in training");
    v("class_share", class_share, range(0.01, 1),
      "largest share of one class in a crop's labelled pixels; 1: any crop is taken");
    v("flip", flip, "mirror training pictures with probability 1/2");
  }
};

/// @throws OptionError for options that contradict each other.
void check(const LabelFramingOptions& options);

/// The size at which a picture is shown. @param ratio  a factor; 1 in evaluation
PictureSize shown_size(const PictureSize& picture, const LabelFramingOptions& options,
                       double ratio = 1);

/// What training shows.
struct LabelFraming {
  PictureSize whole;  ///< to which the picture is resized
  Box part;           ///< of that, what is shown; no larger than the crop
  bool flip = false;
  LabelMap labels;  ///< of the part, not mirrored
};

LabelFraming drawn_framing(const LabelMap& labels, const LabelFramingOptions& options,
                           Random& random);

}  // namespace attnlab
