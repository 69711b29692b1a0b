#include "runner/inspect/label_painting.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "framework/data/image/resize.h"
#include "runner/inspect/drawing.h"

namespace attnlab {
namespace {

const ClassColour& colour_of(std::int16_t label, const std::vector<ClassColour>& colours) {
  return label < 0 ? kNoClassColour : colours.at(static_cast<std::size_t>(label));
}

}  // namespace

std::vector<ShownClass> classes_in(const LabelMap& labels, std::int64_t classes) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes), 0);
  for (const std::int16_t label : labels.classes) {
    if (label >= 0) ++counts.at(static_cast<std::size_t>(label));
  }
  std::vector<ShownClass> shown;
  for (std::int64_t k = 0; k < classes; ++k) {
    const std::int64_t count = counts[static_cast<std::size_t>(k)];
    if (count > 0) shown.push_back({k, double(count) / double(labels.classes.size())});
  }
  std::stable_sort(shown.begin(), shown.end(),
                   [](const ShownClass& a, const ShownClass& b) { return a.share > b.share; });
  return shown;
}

Pixels painted_labels(const LabelMap& labels, const std::vector<ClassColour>& colours) {
  Pixels out(labels.height, labels.width, 3);
  for (std::size_t i = 0; i < labels.classes.size(); ++i) {
    const ClassColour& colour = colour_of(labels.classes[i], colours);
    std::copy(colour.begin(), colour.end(), out.bytes.begin() + std::ptrdiff_t(3 * i));
  }
  return out;
}

Pixels painted_over(const Pixels& picture, const LabelMap& labels,
                    const std::vector<ClassColour>& colours) {
  Pixels out = picture;
  for (std::size_t i = 0; i < labels.classes.size(); ++i) {
    const ClassColour& colour = colour_of(labels.classes[i], colours);
    for (std::size_t c = 0; c < 3; ++c) {
      std::uint8_t& byte = out.bytes[3 * i + c];
      byte = static_cast<std::uint8_t>((byte + colour[c] + 1) / 2);
    }
  }
  return out;
}

Pixels with_legend(const Pixels& picture, const std::vector<LegendEntry>& entries) {
  const std::int64_t dot = std::max<std::int64_t>(1, std::max(picture.height, picture.width) / 500);
  const std::int64_t line = (kLetterHeight + 4) * dot, square = kLetterHeight * dot;
  std::size_t longest = 0;
  for (const LegendEntry& entry : entries) longest = std::max(longest, entry.text.size());
  const std::int64_t wide = square + (std::int64_t(longest) + 2) * kLetterWidth * dot;
  const std::int64_t columns = std::max<std::int64_t>(1, picture.width / wide);
  const std::int64_t rows = (std::int64_t(entries.size()) + columns - 1) / columns;
  Pixels out(picture.height + rows * line, std::max(picture.width, columns * wide), 3);
  std::fill(out.bytes.begin(), out.bytes.end(), std::uint8_t{255});
  for (std::int64_t y = 0; y < picture.height; ++y) {
    std::copy_n(picture.row(y), 3 * picture.width, out.row(y));
  }
  std::int64_t place = 0;
  for (const LegendEntry& entry : entries) {
    const std::int64_t top = picture.height + place / columns * line + 2 * dot;
    const std::int64_t left = place % columns * wide + dot;
    fill(out, {top, left, square, square}, entry.colour);
    write_text(out, top, left + square + 2 * dot, dot, {0, 0, 0}, entry.text);
    ++place;
  }
  return out;
}

Pixels at_most(const Pixels& picture, std::int64_t most) {
  const std::int64_t longer = std::max(picture.height, picture.width);
  if (longer <= most) return picture;
  const auto side = [&](std::int64_t pixels) {
    return std::max<std::int64_t>(1, std::llround(double(pixels) * double(most) / double(longer)));
  };
  return resized(picture, {0, 0, picture.height, picture.width}, side(picture.height),
                 side(picture.width), Filter::bilinear);
}

}  // namespace attnlab
