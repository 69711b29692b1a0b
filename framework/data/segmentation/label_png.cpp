#include "framework/data/segmentation/label_png.h"

#include <fmt/format.h>
#include <zlib.h>

#include <cstdlib>
#include <string_view>

#include "framework/base/error.h"
#include "framework/base/files.h"

namespace attnlab {
namespace {

/// A label map's file as messages speak of it.
[[noreturn]] void refuse_png(const std::string& path, const std::string& what) {
  throw DataError(fmt::format("{}: {}", path, what));
}

[[noreturn]] void refuse_damaged_png(const std::string& path, const std::string& what) {
  refuse_png(path, what + "; fetch the file again");
}

std::uint32_t big_endian_at(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<std::uint8_t>(bytes[at + i]);
  return value;
}

/// What the header says.
struct PngHeader {
  std::int64_t height = 0, width = 0;
  int bits = 0;  ///< of a number
  int kind = 0;  ///< 0 grey, 2 red, green and blue, 3 indexed
  std::int64_t samples() const { return kind == 2 ? 3 : 1; }
  std::int64_t row_bytes() const { return (width * samples() * bits + 7) / 8; }
};

PngHeader header_of(const std::string& path, std::string_view data) {
  constexpr std::int64_t kMostPixels = std::int64_t{1} << 28;
  if (data.size() != 13) refuse_damaged_png(path, "its header has another length than 13 bytes");
  PngHeader header;
  header.width = big_endian_at(data, 0);
  header.height = big_endian_at(data, 4);
  header.bits = static_cast<std::uint8_t>(data[8]);
  header.kind = static_cast<std::uint8_t>(data[9]);
  if (header.width < 1 || header.height < 1 || header.height > kMostPixels / header.width) {
    refuse_png(path, fmt::format("has {} x {} pixels, none or more than are read", header.height,
                                 header.width));
  }
  if (header.kind == 4 || header.kind == 6) {
    refuse_png(path, "has transparency; save a label map as a grey or an indexed PNG");
  }
  const bool few_bits = header.bits == 1 || header.bits == 2 || header.bits == 4;
  const bool known = (header.kind == 0 || header.kind == 3) ? few_bits || header.bits == 8
                                                            : header.kind == 2 && header.bits == 8;
  if (!known) {
    refuse_png(path, fmt::format("has {} bits per value in colour type {}; save a label map as a "
                                 "grey or an indexed PNG of 8 bits",
                                 header.bits, header.kind));
  }
  if (data[10] != 0 || data[11] != 0) {
    refuse_damaged_png(path, "is packed in an unknown way");
  }
  if (data[12] != 0) {
    refuse_png(path, "is interlaced; save it without interlacing");
  }
  return header;
}

/// The nearest of left, above and above left to left + above - above left.
int paeth(int left, int above, int corner) {
  const int guess = left + above - corner;
  const int to_left = std::abs(guess - left), to_above = std::abs(guess - above);
  const int to_corner = std::abs(guess - corner);
  if (to_left <= to_above && to_left <= to_corner) return left;
  return to_above <= to_corner ? above : corner;
}

/// Takes the filters of all rows back, in place. @param rows  each behind a byte that names its
/// filter
void unfilter(const std::string& path, const PngHeader& header, std::vector<std::uint8_t>& rows) {
  const auto size = static_cast<std::size_t>(header.row_bytes());
  const auto step = static_cast<std::size_t>(header.samples());  // of less than 8 bits: a byte
  const std::vector<std::uint8_t> none(size, 0);
  const std::uint8_t* above = none.data();
  for (std::int64_t y = 0; y < header.height; ++y) {
    std::uint8_t* row = rows.data() + static_cast<std::size_t>(y) * (size + 1) + 1;
    const int filter = row[-1];
    if (filter > 4) refuse_damaged_png(path, fmt::format("row {} has an unknown filter", y));
    for (std::size_t i = 0; i < size && filter != 0; ++i) {
      const int left = i < step ? 0 : row[i - step], corner = i < step ? 0 : above[i - step];
      const int up = above[i];
      const int guess = filter == 1   ? left
                        : filter == 2 ? up
                        : filter == 3 ? (left + up) / 2
                                      : paeth(left, up, corner);
      row[i] = static_cast<std::uint8_t>(row[i] + guess);
    }
    above = row;
  }
}

/// One byte a value.
std::vector<std::uint8_t> unpacked(const PngHeader& header, const std::vector<std::uint8_t>& rows) {
  const std::int64_t size = header.row_bytes(), values = header.width * header.samples();
  std::vector<std::uint8_t> out;
  out.reserve(static_cast<std::size_t>(header.height * values));
  const int mask = (1 << header.bits) - 1;
  for (std::int64_t y = 0; y < header.height; ++y) {
    const std::uint8_t* row = rows.data() + y * (size + 1) + 1;
    if (header.bits == 8) {
      out.insert(out.end(), row, row + values);
      continue;
    }
    for (std::int64_t x = 0; x < values; ++x) {
      const std::int64_t bit = x * header.bits;
      const int shift = 8 - header.bits - static_cast<int>(bit % 8);
      out.push_back(static_cast<std::uint8_t>(row[bit / 8] >> shift & mask));
    }
  }
  return out;
}

void check_indices(const std::string& path, const LabelPixels& pixels) {
  const std::size_t colours = pixels.palette.size() / 3;
  if (colours == 0) refuse_damaged_png(path, "is indexed and has no palette");
  for (std::size_t i = 0; i < pixels.bytes.size(); ++i) {
    if (pixels.bytes[i] < colours) continue;
    const auto width = static_cast<std::size_t>(pixels.width);
    refuse_damaged_png(path, fmt::format("row {}, column {}: has the number {} of a palette of {}",
                                         i / width, i % width, int{pixels.bytes[i]}, colours));
  }
}

}  // namespace

LabelPixels read_label_png(const std::string& path) {
  const std::string bytes = read_text(path);
  if (!bytes.starts_with("\x89PNG\r\n\x1a\n")) {
    refuse_png(path, "is not a PNG; save a label map as a grey or an indexed PNG");
  }
  PngHeader header;
  LabelPixels pixels;
  std::string packed;
  bool ended = false;
  for (std::size_t at = 8; !ended;) {
    if (at + 12 > bytes.size()) refuse_damaged_png(path, "ends too early");
    const std::size_t length = big_endian_at(bytes, at);
    if (length > bytes.size() - at - 12) refuse_damaged_png(path, "ends too early");
    const std::string_view body = std::string_view(bytes).substr(at + 4, length + 4);
    const auto sum =
        ::crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
    if (sum != big_endian_at(bytes, at + 8 + length)) {
      refuse_damaged_png(path, fmt::format("byte {}: a checksum is wrong", at));
    }
    const std::string_view type = body.substr(0, 4), data = body.substr(4);
    if ((at == 8) != (type == "IHDR")) refuse_damaged_png(path, "does not begin with its header");
    if (type == "IHDR") header = header_of(path, data);
    if (type == "PLTE") pixels.palette.assign(data.begin(), data.end());
    if (type == "IDAT") packed += data;
    ended = type == "IEND";
    at += 12 + length;
  }
  const std::uint64_t size = static_cast<std::uint64_t>(header.height) *
                             static_cast<std::uint64_t>(header.row_bytes() + 1);
  // Nothing packs better than this; a header may say anything.
  if (size / 1100 > packed.size()) refuse_damaged_png(path, "has too few data for its size");
  std::vector<std::uint8_t> rows(size);
  auto unpacked_size = static_cast<uLongf>(size);
  if (::uncompress(rows.data(), &unpacked_size, reinterpret_cast<const Bytef*>(packed.data()),
                   static_cast<uLong>(packed.size())) != Z_OK ||
      unpacked_size != size) {
    refuse_damaged_png(path, "its data cannot be unpacked");
  }
  unfilter(path, header, rows);
  pixels.height = header.height;
  pixels.width = header.width;
  pixels.colours = header.kind == 2;
  pixels.bytes = unpacked(header, rows);
  if (header.kind == 3) {
    check_indices(path, pixels);
  } else {
    pixels.palette.clear();  // of red, green and blue it is only advice
  }
  return pixels;
}

}  // namespace attnlab
