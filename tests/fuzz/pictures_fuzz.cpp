// Fuzzes the decoder of pictures: half of each in both directions, at a quarter of its size.
// Whatever the bytes, the answer is pixels in which that part lies, or an error that names the
// file.
// Code: framework/data/pictures/image_file.cpp
#include "framework/data/pictures/image_file.h"

#include <algorithm>
#include <new>

#include "framework/base/error.h"
#include "tests/fuzz/files_in_memory.h"
#include "tests/plugins/vision/picture_files.h"

namespace attnlab::fuzz {

namespace {

/// Whether a header promises a picture for which the driver leaves no memory: some formats are
/// decoded whole, before anybody asks for the size.
bool is_large(std::string_view bytes) {
  const auto number = [&](std::size_t at, int count, int step) {
    std::uint64_t value = 0;
    for (int i = 0; i < count; ++i) {
      const std::size_t place = step > 0 ? at + std::size_t(i) : at + std::size_t(count - 1 - i);
      value = value << 8 | (place < bytes.size() ? std::uint8_t(bytes[place]) : 0U);
    }
    return value;
  };
  const auto many = [](std::uint64_t height, std::uint64_t width) {
    return height * width > (std::uint64_t{1} << 22);
  };
  if (bytes.starts_with("P") && bytes.size() > 2) {  // Netpbm's sizes are digits
    int digits = 0;
    for (const char c : bytes.substr(2, 100)) {
      digits = c >= '0' && c <= '9' ? digits + 1 : 0;
      if (digits > 3) return true;
    }
    return bytes.size() > 100 && bytes[1] < '4';  // in digits, too, wherever they begin
  }
  if (bytes.starts_with("\x89PNG")) return many(number(16, 4, 1), number(20, 4, 1));
  if (bytes.starts_with("RIFF")) {
    const std::uint64_t lossless = number(21, 4, -1);
    return many(number(24, 3, -1) + 1, number(27, 3, -1) + 1) ||            // VP8X
           many(number(26, 2, -1) & 0x3fff, number(28, 2, -1) & 0x3fff) ||  // VP8
           many((lossless & 0x3fff) + 1, (lossless >> 14 & 0x3fff) + 1);    // VP8L
  }
  for (std::size_t at = 0; (at = bytes.find('\xff', at)) != bytes.npos; ++at) {  // four colours
    const std::uint64_t marker = number(at + 1, 1, 1);
    const bool frame = marker >= 0xc0 && marker <= 0xcf && number(at + 9, 1, 1) > 3;
    if (frame && many(number(at + 5, 2, 1), number(at + 7, 2, 1))) return true;
  }
  return false;
}

}  // namespace

Target target() {
  using testing::photograph;
  Target target;
  const Pixels image = photograph(40, 56);
  target.seeds = {testing::jpeg_of(image),
                  testing::jpeg_of(image, {2, 1, true}),
                  testing::jpeg_of(image, {1, 1, false, true}),
                  testing::file_of(photograph(5, 7), ".png"),
                  testing::file_of(photograph(5, 7), ".webp"),
                  testing::jpeg_of(image).substr(0, 300),
                  "P6 # red\n2 2\n255\nabcdefghijkl",
                  "GIF89a",
                  ""};
  target.words = {std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16),
                  "RIFF",
                  "WEBPVP8 ",
                  "WEBPVP8L",
                  "\xff\xd8\xff",
                  "\xff\xd9",
                  "\xff\xda",
                  "\xff\xc0",
                  "\xff\xc2",
                  "\xff\xc4",
                  "\xff\xdb",
                  "\xff\xff"};
  return target;
}

}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  static const fuzz::MemoryFolder folder;
  const std::string path = folder.write("in.jpg", {reinterpret_cast<const char*>(data), size});
  if (fuzz::is_large({reinterpret_cast<const char*>(data), size})) return -1;
  try {
    ImageFile file(path);
    const std::int64_t height = file.height(), width = file.width();
    if (height < 1 || width < 1) fuzz::fail("an image without pixels");
    if (height > (1 << 22) / width) return -1;  // for more the driver leaves no memory
    const Box box{height / 4, width / 4, (height + 1) / 2, (width + 1) / 2};
    const ImageFile::Part part = file.read(box, std::max<std::int64_t>(1, box.height / 4),
                                           std::max<std::int64_t>(1, box.width / 4));
    if (part.box.top < 0 || part.box.left < 0 || part.box.height < 1 || part.box.width < 1 ||
        part.box.top + part.box.height > part.pixels.height ||
        part.box.left + part.box.width > part.pixels.width) {
      fuzz::fail("a part that is not in its pixels");
    }
    return 0;
  } catch (const DataError& error) {
    fuzz::check_names(path, error);
    return -1;
  } catch (const std::bad_alloc&) {
    return -1;  // of an image that OpenCV reads, within its limit of pixels
  }
}
