// Fuzzes the reader of label maps: PNG files of numbers or colours. Whatever the bytes, the answer
// is a number or a colour for each pixel, of an indexed file one that its palette has, or a
// DataError that names the file; what they mean is a class for each pixel or a DataError that names
// the file. Code: framework/data/segmentation/label_png.cpp
// framework/data/segmentation/label_rule.cpp
#include <algorithm>

#include "framework/base/error.h"
#include "framework/data/segmentation/label_rule.h"
#include "tests/fuzz/files_in_memory.h"
#include "tests/support/label_files.h"

namespace attnlab::fuzz {
namespace {

/// Whether a header promises a picture for which the driver leaves no memory.
bool is_large(std::string_view bytes) {
  const auto number = [&](std::size_t at) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value << 8 | std::uint8_t(bytes[at + i]);
    return value;
  };
  return bytes.size() > 24 && number(16) * number(20) > (std::uint64_t{1} << 22);
}

/// The file of an input that is rows; any other input as it is.
std::string file_of(std::string_view input) {
  constexpr std::string_view kRows = "rows";
  if (!input.starts_with(kRows) || input.size() < kRows.size() + 4) return std::string(input);
  const auto byte = [&](std::size_t i) {
    return std::size_t{std::uint8_t(input[kRows.size() + i])};
  };
  const std::size_t width = byte(0) % 32 + 1, height = byte(1) % 32 + 1;
  const std::size_t kind = byte(2) / 4 % 3, samples = kind == 1 ? 3 : 1;
  const std::size_t bits = kind == 1 ? 8 : std::size_t{1} << byte(2) % 4;
  std::string rows(input.substr(kRows.size() + 4));
  rows.resize(height * (1 + (width * samples * bits + 7) / 8));
  uLongf size = compressBound(rows.size());
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(rows.data()), rows.size());
  packed.resize(size);
  const std::string header = {
      0, 0, 0, char(width), 0, 0, 0, char(height), char(bits), "\0\2\3"[kind], 0, 0, 0};
  return "\x89PNG\r\n\x1a\n" + testing::png_chunk("IHDR", header) +
         testing::png_chunk("PLTE", std::string(3 * byte(3), '\0')) +
         testing::png_chunk("IDAT", packed) + testing::png_chunk("IEND", "");
}

/// Sets the checksum of every piece.
void repair_checksums(std::string& input) {
  if (input.starts_with("rows")) return;
  std::size_t at = 8;
  while (at + 12 <= input.size()) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length = length << 8 | std::uint8_t(input[at + i]);
    if (length > input.size() - at - 12) return;
    const std::string whole =
        testing::png_chunk(input.substr(at + 4, 4), input.substr(at + 8, length));
    input.replace(at, whole.size(), whole);
    at += whole.size();
  }
}

/// Classes for the numbers 0 and 1 and for black and white, 9 without label, others refused.
LabelRule rule() {
  LabelRule rule = LabelRule::refusing();
  rule.class_names = {"road", "sky"};
  rule.classes[0] = 0;
  rule.classes[1] = 1;
  rule.classes[9] = kUnlabelled;
  rule.numbers = "0, 1 and 9";
  rule.colours = {{0x000000, 0}, {0xffffff, 1}};
  return rule;
}

void check_pixels(const LabelPixels& pixels) {
  const auto count = static_cast<std::size_t>(pixels.height * pixels.width);
  if (pixels.height < 1 || pixels.width < 1) fail("a label map without pixels");
  if (pixels.bytes.size() != count * (pixels.colours ? 3 : 1)) fail("not a value for each pixel");
  if (pixels.palette.empty()) return;
  const std::size_t colours = pixels.palette.size() / 3;
  if (*std::max_element(pixels.bytes.begin(), pixels.bytes.end()) >= colours) {
    fail("a number that the palette does not have");
  }
}

void check_classes(const LabelMap& map, const LabelPixels& pixels) {
  if (map.height != pixels.height || map.width != pixels.width) fail("another size of classes");
  if (map.classes.size() != static_cast<std::size_t>(map.height * map.width)) {
    fail("not a class for each pixel");
  }
  for (const std::int16_t one : map.classes) {
    if (one != 0 && one != 1 && one != kUnlabelled) fail("a class that the rule does not have");
  }
}

}  // namespace

Target target() {
  using testing::numbers_png;
  const std::vector<std::uint8_t> bits = {0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0};
  const std::vector<std::uint8_t> bytes = {0, 1, 9, 0, 255, 0, 7, 1, 1, 9, 0, 3};
  Target target;
  target.seeds = {numbers_png(3, 4, bits),
                  numbers_png(3, 4, bits, {1, {}, true}),
                  numbers_png(3, 4, bits, {2, {0, 0, 0, 255, 255, 255}, true}),
                  numbers_png(3, 4, bits, {4, {0, 0, 0, 9, 9, 9}, false}),
                  numbers_png(3, 4, bytes, {8, {}, true}),
                  numbers_png(2, 2, bytes, {8, {}, true, true}),
                  numbers_png(2, 2, std::vector<std::uint8_t>(12, 255), {8, {}, false, true}),
                  numbers_png(3, 4, bits, {8, {}, false, false, true}),
                  numbers_png(3, 4, bits).substr(0, 60),
                  "rows\2\2\3 \1abc\2abc\4abc",
                  std::string("rows\4\2\x0b\2\3\0\1\0\1\0\4\1\1\1\1\1", 20),
                  ""};
  target.words = {"rows",
                  std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16),
                  std::string("\0\0\0\0IEND\xae\x42\x60\x82", 12),
                  "IDAT",
                  "PLTE",
                  "tRNS",
                  "IEND",
                  std::string("\0\0\0\1", 4),
                  std::string("\0\0\0\x18", 4),
                  "\xff\xff\xff\xff",
                  "\x08\x03",
                  "\x78\x9c"};
  target.repair = repair_checksums;
  return target;
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  static const fuzz::MemoryFolder folder;
  static const LabelRule rule = fuzz::rule();
  const std::string bytes = fuzz::file_of({reinterpret_cast<const char*>(data), size});
  if (fuzz::is_large(bytes)) return -1;
  const std::string path = folder.write("in.png", bytes);
  try {
    const LabelPixels pixels = read_label_png(path);
    fuzz::check_pixels(pixels);
    fuzz::check_classes(labels_of(pixels, rule, path), pixels);
    return 0;
  } catch (const DataError& error) {
    fuzz::check_names(path, error);
    return -1;
  }
}
