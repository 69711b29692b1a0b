#include "framework/data/segmentation/label_map.h"

#include <algorithm>

namespace attnlab {
namespace {

/// For each of `count` pixels from `begin` on, of `out`, the one of `in` in which its middle lies.
std::vector<std::int64_t> nearest_pixels(std::int64_t in, std::int64_t out, std::int64_t begin,
                                         std::int64_t count) {
  std::vector<std::int64_t> nearest(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    nearest[static_cast<std::size_t>(i)] = std::min(in - 1, (2 * (begin + i) + 1) * in / (2 * out));
  }
  return nearest;
}

}  // namespace

LabelMap resized_labels(const LabelMap& labels, const PictureSize& size, const Box& window) {
  const Box part = window.height == 0 ? Box{0, 0, size.height, size.width} : window;
  const auto rows = nearest_pixels(labels.height, size.height, part.top, part.height);
  const auto columns = nearest_pixels(labels.width, size.width, part.left, part.width);
  LabelMap out(part.height, part.width);
  for (std::int64_t y = 0; y < part.height; ++y) {
    const std::int16_t* from = labels.row(rows[static_cast<std::size_t>(y)]);
    std::transform(columns.begin(), columns.end(), out.row(y),
                   [from](std::int64_t column) { return from[column]; });
  }
  return out;
}

}  // namespace attnlab
