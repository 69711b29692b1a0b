// Reading files that say at their beginning how large they are.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace attnlab {

/// Bytes of a whole file, by its first bytes; nothing where these are too few to tell.
using PromisedSize = std::function<std::optional<std::uint64_t>(std::string_view first)>;

/// As `read_data_file` (formats/files.h). Decompressing stops soon after more has come out than the
/// file promised: a few megabytes of gzip can hold gigabytes.
/// @throws DataError then, too.
std::string read_data_file(const std::string& path, const PromisedSize& promised);

}  // namespace attnlab
