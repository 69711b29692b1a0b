#include "framework/data/detection/framing.h"

#include <algorithm>
#include <cmath>

namespace attnlab {
namespace {

std::int64_t rounded(double x) { return std::max<std::int64_t>(1, std::llround(x)); }

/// A part of `length` pixels that shows `shown` of `whole` of them, somewhere at random.
std::pair<std::int64_t, std::int64_t> drawn_part(std::int64_t length, std::int64_t shown,
                                                 std::int64_t whole, Random& random) {
  const std::int64_t part =
      std::min(length, rounded(double(length) * double(shown) / double(whole)));
  return {random.below(length - part + 1), part};
}

}  // namespace

void check(const FramingOptions& options) {
  if (options.jitter.size() != 2 || options.jitter[0] > options.jitter[1]) {
    throw OptionError("jitter", "needs two numbers, the smaller one first");
  }
}

Framing whole_picture(const PictureNotes& picture, std::int64_t size) {
  const double scale = double(size) / double(std::max(picture.height, picture.width));
  return {{0, 0, picture.height, picture.width},
          rounded(double(picture.height) * scale),
          rounded(double(picture.width) * scale),
          false};
}

Framing drawn_framing(const PictureNotes& picture, const FramingOptions& options, Random& random) {
  const double low = options.jitter[0], high = options.jitter[1];
  const double factor = low == high ? low : low + (high - low) * random.uniform();
  Framing framing = whole_picture(picture, rounded(double(options.size) * factor));
  const std::int64_t height = framing.height, width = framing.width;
  framing.height = std::min(height, options.size);
  framing.width = std::min(width, options.size);
  if (height > options.size || width > options.size) {
    std::tie(framing.part.top, framing.part.height) =
        drawn_part(picture.height, framing.height, height, random);
    std::tie(framing.part.left, framing.part.width) =
        drawn_part(picture.width, framing.width, width, random);
  }
  framing.flip = options.flip && random.uniform() < 0.5;
  return framing;
}

std::vector<ObjectBox> framed_boxes(const std::vector<ObjectBox>& boxes, const Framing& framing,
                                    double least_visible) {
  const auto width = double(framing.part.width), height = double(framing.part.height);
  const auto left = double(framing.part.left), top = double(framing.part.top);
  std::vector<ObjectBox> seen;
  for (ObjectBox box : boxes) {
    const double whole = (box.x1 - box.x0) * (box.y1 - box.y0);
    box.x0 = std::clamp((box.x0 - left) / width, 0.0, 1.0);
    box.x1 = std::clamp((box.x1 - left) / width, 0.0, 1.0);
    box.y0 = std::clamp((box.y0 - top) / height, 0.0, 1.0);
    box.y1 = std::clamp((box.y1 - top) / height, 0.0, 1.0);
    const double shown = (box.x1 - box.x0) * (box.y1 - box.y0) * width * height;
    // What is seen as a whole is a whole also where shares round.
    if (!(shown > 0) || shown < least_visible * whole * (1 - 1e-9)) continue;
    if (framing.flip) {
      std::swap(box.x0, box.x1);
      box.x0 = 1 - box.x0;
      box.x1 = 1 - box.x1;
    }
    seen.push_back(box);
  }
  return seen;
}

}  // namespace attnlab
