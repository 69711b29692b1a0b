#include "framework/data/formats/detail/zip.h"

#include <fmt/format.h>

#include <zlib.h>

#include "framework/base/error.h"

namespace attnlab {

std::uint64_t little(std::string_view bytes, std::uint64_t at, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = count; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  }
  return value;
}

void refuse_member(const ZipMember& member, const std::string& path, const std::string& what) {
  throw DataError(fmt::format("{}: member {} {}; the file is damaged", path, member.name, what));
}

std::vector<ZipMember> zip_members(std::string_view zip, const std::string& path) {
  const std::size_t end = zip.rfind("PK\x05\x06");
  if (end == std::string_view::npos || zip.size() - end < 22) {
    throw DataError(path + ": has no directory at its end; it is not a zip, or it is cut off");
  }
  const auto damaged = [&] { return DataError(path + ": the directory is damaged"); };
  std::uint64_t count = little(zip, end + 10, 2), at = little(zip, end + 16, 4);
  constexpr std::uint64_t kElsewhere = 0xffffffff;  // in a field of zip64, which is not read
  if ((count == 0xffff || at == kElsewhere) && end >= 20 &&
      zip.substr(end - 20, 4) == "PK\x06\x07") {
    const std::uint64_t wide = little(zip, end - 12, 8);
    if (zip.size() < 56 || wide > zip.size() - 56 || zip.substr(wide, 4) != "PK\x06\x06") {
      throw damaged();
    }
    count = little(zip, wide + 32, 8);
    at = little(zip, wide + 48, 8);
  }
  std::vector<ZipMember> members;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (zip.size() < 46 || at > zip.size() - 46 || zip.substr(at, 4) != "PK\x01\x02") {
      throw damaged();
    }
    const std::uint64_t name = little(zip, at + 28, 2);
    members.push_back({std::string(zip.substr(at + 46, name)), little(zip, at + 10, 2),
                       little(zip, at + 16, 4), little(zip, at + 20, 4), little(zip, at + 24, 4),
                       little(zip, at + 42, 4)});
    const ZipMember& last = members.back();
    if (last.packed == kElsewhere || last.size == kElsewhere || last.header == kElsewhere) {
      throw DataError(fmt::format("{}: member {} has 4 GiB or lies behind them, which is not read",
                                  path, last.name));
    }
    at += 46 + name + little(zip, at + 30, 2) + little(zip, at + 32, 2);
  }
  return members;
}

std::string_view packed_bytes(std::string_view zip, const ZipMember& member,
                              const std::string& path) {
  if (member.header + 30 > zip.size()) refuse_member(member, path, "lies behind the end");
  const std::uint64_t begin =
      member.header + 30 + little(zip, member.header + 26, 2) + little(zip, member.header + 28, 2);
  if (begin > zip.size() || zip.size() - begin < member.packed) {
    refuse_member(member, path, "is cut off");
  }
  return zip.substr(begin, member.packed);
}

void check_sum(std::string_view bytes, const ZipMember& member, const std::string& path) {
  if (bytes.size() == member.size &&
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) == member.checksum) {
    return;
  }
  refuse_member(member, path, "has another checksum than it should");
}

}  // namespace attnlab
