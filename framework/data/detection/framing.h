// Which part of a picture a model sees, at which size, and what happens to its boxes.
//
//   evaluation: the whole picture, its longer side resized to `size`
//   training:   large-scale jitter: the same times a factor in `jitter`; of what is larger than
//               `size` a random part; mirrored with probability 1/2
//
// A box keeps what of it is seen; one of which less than `least_visible` is seen is dropped.
// Source: Ghiasi et al., Simple Copy-Paste, CVPR 2021 (large-scale jitter). Pictures are not padded
// here but in their batch, so what is padded is marked.
#pragma once

#include "framework/base/random.h"
#include "framework/config/options.h"
#include "framework/data/detection/pictures.h"

namespace attnlab {

struct FramingOptions {
  std::int64_t size = 512;
  std::vector<double> jitter = {1, 1};
  bool flip = false;
  double least_visible = 0.1;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("size", size, range(8, 8192), "longer side of a picture as the model sees it, in pixels");
    v("jitter", jitter, range(0.05, 20),
      "least and largest factor of that size in training (large-scale jitter: [0.1, 2])");
    v("flip", flip, "mirror training pictures with probability 1/2");
    v("least_visible", least_visible, range(0, 1),
      "least share of a box's area in a random crop; other boxes are dropped");
  }
};

/// A part of a picture, and how it is shown.
struct Framing {
  Box part;                            ///< in the picture's pixels
  std::int64_t height = 0, width = 0;  ///< that it is resized to
  bool flip = false;
};

/// @throws OptionError where `jitter` is not a pair of rising numbers.
void check(const FramingOptions& options);

/// Of evaluation.
Framing whole_picture(const PictureNotes& picture, std::int64_t size);
/// Of training.
Framing drawn_framing(const PictureNotes& picture, const FramingOptions& options, Random& random);

/// The boxes that are seen, their edges in shares of the part that is shown; areas as they were.
std::vector<ObjectBox> framed_boxes(const std::vector<ObjectBox>& boxes, const Framing& framing,
                                    double least_visible);

}  // namespace attnlab
