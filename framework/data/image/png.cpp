#include "framework/data/image/png.h"

#include <zlib.h>

#include "framework/base/error.h"

namespace attnlab {
namespace {

std::string big_endian(std::uint64_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

std::string chunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  const auto sum =
      ::crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(data.size()) + body + big_endian(sum);
}

}  // namespace

std::string png_of(const Pixels& image) {
  std::string rows;
  for (std::int64_t y = 0; y < image.height; ++y) {
    rows += '\0';  // no filter
    rows.append(reinterpret_cast<const char*>(image.row(y)),
                static_cast<std::size_t>(image.width * image.channels));
  }
  uLongf size = ::compressBound(rows.size());
  std::string packed(size, '\0');
  if (::compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                 reinterpret_cast<const Bytef*>(rows.data()), rows.size()) != Z_OK) {
    throw Error("zlib: out of memory");
  }
  packed.resize(size);
  const std::string header =
      big_endian(static_cast<std::uint64_t>(image.width)) +
      big_endian(static_cast<std::uint64_t>(image.height)) +
      std::string({'\x08', image.channels == 3 ? '\x02' : '\0', '\0', '\0', '\0'});
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunk("IDAT", packed) + chunk("IEND", "");
}

}  // namespace attnlab
