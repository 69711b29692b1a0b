// Bytes as letters, for JSON and pages (RFC 4648, with padding).
#pragma once

#include <string>
#include <string_view>

namespace attnlab {

std::string base64_text(std::string_view bytes);

/// @throws DataError for a text that is not base64: other letters, or a length that is not a
/// multiple of 4.
std::string base64_bytes(std::string_view text);

}  // namespace attnlab
