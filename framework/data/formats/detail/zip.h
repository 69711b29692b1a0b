// Zips in memory: what their directory says, and where members lie. For readers of .npz and of
// PyTorch's files alone.
//
// Source: PKWARE APPNOTE 6.3; of zip64 the directory's own record, which many members need. Offsets
// and sizes of 4 GiB or more are not read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attnlab {

struct ZipMember {
  std::string name;
  std::uint64_t method, checksum, packed, size, header;
};

/// @throws DataError with path where there is no directory, or it is damaged.
std::vector<ZipMember> zip_members(std::string_view zip, const std::string& path);

/// A member's bytes as they stand in the file. @throws DataError where they do not.
std::string_view packed_bytes(std::string_view zip, const ZipMember& member,
                              const std::string& path);

/// @throws DataError where these are not the bytes that were packed.
void check_sum(std::string_view bytes, const ZipMember& member, const std::string& path);

/// What is wrong with a member.
[[noreturn]] void refuse_member(const ZipMember& member, const std::string& path,
                                const std::string& what);

/// A whole number of up to 8 bytes, which must be there.
std::uint64_t little(std::string_view bytes, std::uint64_t at, std::size_t count);

}  // namespace attnlab
