#include "runner/inspect/contact_sheet.h"

#include <algorithm>

#include "runner/inspect/drawing.h"

namespace attnlab {
namespace {

constexpr std::int64_t kGap = 6;  // pixels between pictures
constexpr std::int64_t kTextHeight = 12;
constexpr std::int64_t kLeastSize = 96;  // smaller pictures are enlarged

}  // namespace

Pixels contact_sheet(const std::vector<Picture>& pictures, std::int64_t columns) {
  const Pixels& first = pictures.at(0).pixels;
  const std::int64_t zoom =
      std::max<std::int64_t>(1, kLeastSize / std::max(first.height, first.width));
  const std::int64_t width = first.width * zoom, height = first.height * zoom;
  const auto count = static_cast<std::int64_t>(pictures.size());
  const std::int64_t rows = (count + columns - 1) / columns;
  Pixels sheet(kGap + rows * (height + kTextHeight + kGap), kGap + columns * (width + kGap), 3);
  std::fill(sheet.bytes.begin(), sheet.bytes.end(), 255);
  for (std::int64_t i = 0; i < count; ++i) {
    const Picture& picture = pictures[static_cast<std::size_t>(i)];
    const std::int64_t top = kGap + i / columns * (height + kTextHeight + kGap);
    const std::int64_t left = kGap + i % columns * (width + kGap);
    for (std::int64_t y = 0; y < first.height; ++y) {
      for (std::int64_t x = 0; x < first.width; ++x) {
        const std::uint8_t* pixel = picture.pixels.row(y) + x * first.channels;
        const bool grey = first.channels < 3;
        fill(sheet, {top + y * zoom, left + x * zoom, zoom, zoom},
             {pixel[0], pixel[grey ? 0 : 1], pixel[grey ? 0 : 2]});
      }
    }
    const std::string text = picture.text.substr(0, std::size_t(width / kLetterWidth));
    write_text(sheet, top + height + 3, left, 1, {0, 0, 0}, text);
  }
  return sheet;
}

}  // namespace attnlab
