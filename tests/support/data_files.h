// Small files in the layouts of real datasets, and what tests say about errors.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/error.h"
#include "tests/support/message_of.h"

namespace attnlab::testing {

/// The bytes as one gzip member.
inline std::string gzipped(std::string_view bytes) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// A zip of members by name, as numpy.savez and numpy.savez_compressed write it.
inline std::string zip_file(const std::vector<std::pair<std::string, std::string>>& members,
                            bool deflated) {
  const auto little = [](std::uint64_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(i < 8 ? value >> (8 * i) : 0);
    return out;
  };
  std::string out, directory;
  for (const auto& [name, content] : members) {
    std::string packed = content;
    if (deflated) {
      packed = gzipped(content);
      packed = packed.substr(10, packed.size() - 18);  // without gzip's own head and foot
    }
    const auto check =
        crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
    const std::string common = little(0, 2) + little(deflated ? 8 : 0, 2) + little(0, 4) +
                               little(check, 4) + little(packed.size(), 4) +
                               little(content.size(), 4) + little(name.size(), 2) + little(0, 2);
    directory += "PK\x01\x02" + little(20, 2) + little(20, 2) + common + little(0, 10) +
                 little(out.size(), 4) + name;
    out += "PK\x03\x04" + little(20, 2) + common + name + packed;
  }
  return out + directory + "PK\x05\x06" + little(0, 4) + little(members.size(), 2) +
         little(members.size(), 2) + little(directory.size(), 4) + little(out.size(), 4) +
         little(0, 2);
}

/// An IDX file: magic 0x00000800 + number of sizes, the sizes, the bytes.
inline std::string idx_file(const std::vector<std::uint32_t>& sizes, std::string_view bytes) {
  std::string out;
  const auto append = [&](std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
  };
  append(0x800 + static_cast<std::uint32_t>(sizes.size()));
  for (const std::uint32_t size : sizes) append(size);
  return out.append(bytes);
}

/// Pixel k of image i in these tests: every image differs, every pixel differs from its neighbours.
inline std::uint8_t test_pixel(std::size_t i, std::size_t k) {
  return static_cast<std::uint8_t>(17 * i + 5 * k + 3);
}

}  // namespace attnlab::testing
