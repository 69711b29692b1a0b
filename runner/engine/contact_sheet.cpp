#include "runner/engine/contact_sheet.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace attnlab {
namespace {

// Letters of 5 x 7 pixels: five columns each, the upper pixel the lowest bit.
constexpr std::string_view kLetters = " 0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-_./,()+#:'=";
constexpr std::uint8_t kColumns[][5] = {
    {0, 0, 0, 0, 0},
    {0x3e, 0x51, 0x49, 0x45, 0x3e},
    {0, 0x42, 0x7f, 0x40, 0},
    {0x42, 0x61, 0x51, 0x49, 0x46},
    {0x22, 0x41, 0x49, 0x49, 0x36},
    {0x18, 0x14, 0x12, 0x7f, 0x10},
    {0x27, 0x45, 0x45, 0x45, 0x39},
    {0x3c, 0x4a, 0x49, 0x49, 0x30},
    {0x01, 0x71, 0x09, 0x05, 0x03},
    {0x36, 0x49, 0x49, 0x49, 0x36},
    {0x06, 0x49, 0x49, 0x29, 0x1e},
    {0x7e, 0x09, 0x09, 0x09, 0x7e},
    {0x7f, 0x49, 0x49, 0x49, 0x36},
    {0x3e, 0x41, 0x41, 0x41, 0x22},
    {0x7f, 0x41, 0x41, 0x22, 0x1c},
    {0x7f, 0x49, 0x49, 0x49, 0x41},
    {0x7f, 0x09, 0x09, 0x09, 0x01},
    {0x3e, 0x41, 0x49, 0x49, 0x3a},
    {0x7f, 0x08, 0x08, 0x08, 0x7f},
    {0, 0x41, 0x7f, 0x41, 0},
    {0x20, 0x40, 0x40, 0x40, 0x3f},
    {0x7f, 0x08, 0x14, 0x22, 0x41},
    {0x7f, 0x40, 0x40, 0x40, 0x40},
    {0x7f, 0x02, 0x0c, 0x02, 0x7f},
    {0x7f, 0x04, 0x08, 0x10, 0x7f},
    {0x3e, 0x41, 0x41, 0x41, 0x3e},
    {0x7f, 0x09, 0x09, 0x09, 0x06},
    {0x3e, 0x41, 0x51, 0x21, 0x5e},
    {0x7f, 0x09, 0x19, 0x29, 0x46},
    {0x26, 0x49, 0x49, 0x49, 0x32},
    {0x01, 0x01, 0x7f, 0x01, 0x01},
    {0x3f, 0x40, 0x40, 0x40, 0x3f},
    {0x1f, 0x20, 0x40, 0x20, 0x1f},
    {0x3f, 0x40, 0x30, 0x40, 0x3f},
    {0x63, 0x14, 0x08, 0x14, 0x63},
    {0x07, 0x08, 0x70, 0x08, 0x07},
    {0x61, 0x51, 0x49, 0x45, 0x43},
    {0x08, 0x08, 0x08, 0x08, 0x08},
    {0x40, 0x40, 0x40, 0x40, 0x40},
    {0, 0x60, 0x60, 0, 0},
    {0x20, 0x10, 0x08, 0x04, 0x02},
    {0, 0x50, 0x30, 0, 0},
    {0, 0x1c, 0x22, 0x41, 0},
    {0, 0x41, 0x22, 0x1c, 0},
    {0x08, 0x08, 0x3e, 0x08, 0x08},
    {0x14, 0x7f, 0x14, 0x7f, 0x14},
    {0, 0x36, 0x36, 0, 0},
    {0, 0x05, 0x03, 0, 0},
    {0x14, 0x14, 0x14, 0x14, 0x14},
};
static_assert(std::size(kColumns) == kLetters.size());

constexpr std::int64_t kGap = 6;          // pixels between pictures
constexpr std::int64_t kLetterWidth = 6;  // with what stands between letters
constexpr std::int64_t kTextHeight = 12;
constexpr std::int64_t kLeastSize = 96;  // smaller pictures are enlarged

void fill(Pixels& sheet, std::int64_t y, std::int64_t x, std::int64_t side,
          const std::array<std::uint8_t, 3>& colour) {
  for (std::int64_t row = y; row < y + side; ++row) {
    for (std::int64_t column = x; column < x + side; ++column) {
      std::copy(colour.begin(), colour.end(), sheet.row(row) + 3 * column);
    }
  }
}

void write_text(Pixels& sheet, std::int64_t y, std::int64_t x, std::int64_t width,
                const std::string& text) {
  for (const char letter : text.substr(0, static_cast<std::size_t>(width / kLetterWidth))) {
    const auto capital = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
    const std::size_t found = kLetters.find(capital);
    for (std::int64_t column = 0; column < 5; ++column) {
      const int bits = kColumns[found == std::string_view::npos ? 0 : found][column];
      for (std::int64_t row = 0; row < 7; ++row) {
        if ((bits >> row & 1) != 0) fill(sheet, y + row, x + column, 1, {0, 0, 0});
      }
    }
    x += kLetterWidth;
  }
}

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
        fill(sheet, top + y * zoom, left + x * zoom, zoom,
             {pixel[0], pixel[grey ? 0 : 1], pixel[grey ? 0 : 2]});
      }
    }
    write_text(sheet, top + height + 3, left, width, picture.text);
  }
  return sheet;
}

}  // namespace attnlab
