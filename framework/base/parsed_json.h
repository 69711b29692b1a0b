// JSON from files, which may be anybody's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "framework/base/files.h"
#include "framework/base/json.h"

namespace attnlab {

/// Parses a text, with a byte-order mark or without. What is nested deeper than 100 levels is
/// refused: our formats are not, and copying, comparing or writing such a value would take the
/// stack.
/// @throws nlohmann::json::exception for that, for UTF-16, and for what is not JSON
nlohmann::json parsed_json(std::string_view text);

/// The same of a file of at most `most` bytes.
/// @throws nlohmann::json::exception as above; FileError with path and reason
nlohmann::json parsed_json_file(const std::string& path, std::uint64_t most = kLargestRecord);

}  // namespace attnlab
