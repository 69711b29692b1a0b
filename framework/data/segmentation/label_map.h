// A class for each pixel of a picture.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/data/image/pixels.h"

namespace attnlab {

/// What a pixel without a label has instead of a class.
inline constexpr std::int16_t kUnlabelled = -1;

struct PictureSize {
  std::int64_t height = 0, width = 0;

  bool operator==(const PictureSize&) const = default;
};

struct LabelMap {
  std::int64_t height = 0, width = 0;
  std::vector<std::int16_t> classes;  ///< row by row; `kUnlabelled` where there is no label

  LabelMap() = default;
  LabelMap(std::int64_t h, std::int64_t w)
      : height(h), width(w), classes(static_cast<std::size_t>(h * w), kUnlabelled) {}

  std::int16_t* row(std::int64_t y) { return classes.data() + y * width; }
  const std::int16_t* row(std::int64_t y) const { return classes.data() + y * width; }
};

/// A label map at another size, by the nearest pixel: pixel (y, x) of the result has the class of
/// the pixel in which its middle lies. (OpenCV's nearest takes the pixel in which its corner lies,
/// half a pixel beside the picture that is resized with it.)
/// @param window  the part of the result that is wanted; empty (0 x 0): all of it
LabelMap resized_labels(const LabelMap& labels, const PictureSize& size, const Box& window = {});

}  // namespace attnlab
