// Small label maps as PNG files, for tests.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace attnlab::testing {

/// How a PNG of numbers is written.
struct NumbersForm {
  int bits = 8;
  std::vector<std::uint8_t> palette = {};  ///< red, green and blue of each number; empty: grey
  bool filtered = false;                   ///< row y by filter y % 5; else without
  bool coloured = false;                   ///< three numbers a pixel: red, green, blue
  bool interlaced = false;                 ///< says so in its header, and is not
};

inline std::string png_chunk(const std::string& type, const std::string& data) {
  const auto big = [](std::uint64_t value) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
    return bytes;
  };
  const std::string body = type + data;
  const auto sum =
      crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big(data.size()) + body + big(sum);
}

/// What filter `kind` guesses of a byte from those before it.
inline int png_guess(int kind, int left, int up, int corner) {
  if (kind == 1) return left;
  if (kind == 2) return up;
  if (kind == 3) return (left + up) / 2;
  if (kind == 0) return 0;
  const int p = left + up - corner;
  const int a = std::abs(p - left), b = std::abs(p - up), c = std::abs(p - corner);
  return a <= b && a <= c ? left : b <= c ? up : corner;
}

/// A PNG of numbers. @param numbers  row by row
inline std::string numbers_png(std::size_t height, std::size_t width,
                               const std::vector<std::uint8_t>& numbers,
                               const NumbersForm& form = {}) {
  const std::size_t samples = form.coloured ? 3 : 1;
  std::string rows, above;
  for (std::size_t y = 0; y < height; ++y) {
    std::string row((width * samples * std::size_t(form.bits) + 7) / 8, '\0');
    for (std::size_t x = 0; x < width * samples; ++x) {
      const std::size_t bit = x * std::size_t(form.bits);
      const int shift = 8 - form.bits - int(bit % 8);
      row[bit / 8] = char(row[bit / 8] | numbers[y * width * samples + x] << shift);
    }
    if (above.empty()) above.assign(row.size(), '\0');
    const int kind = form.filtered ? int(y % 5) : 0;
    rows += char(kind);
    const auto byte = [](const std::string& text, std::size_t at) {
      return int(static_cast<std::uint8_t>(text[at]));
    };
    for (std::size_t i = 0; i < row.size(); ++i) {
      const int left = i < samples ? 0 : byte(row, i - samples);
      const int corner = i < samples ? 0 : byte(above, i - samples);
      rows += char(byte(row, i) - png_guess(kind, left, byte(above, i), corner));
    }
    above = row;
  }
  uLongf size = compressBound(rows.size());
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(rows.data()), rows.size());
  packed.resize(size);
  std::string header;
  for (const std::size_t side : {width, height}) {
    for (int shift = 24; shift >= 0; shift -= 8) header += char(side >> shift);
  }
  header += char(form.bits);
  header += char(form.coloured ? 2 : form.palette.empty() ? 0 : 3);
  header += std::string(2, '\0') + char(form.interlaced ? 1 : 0);
  const std::string palette(form.palette.begin(), form.palette.end());
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", header) +
         (palette.empty() ? "" : png_chunk("PLTE", palette)) + png_chunk("IDAT", packed) +
         png_chunk("IEND", "");
}

}  // namespace attnlab::testing
