// SHA-256 (FIPS 180-4) for what must not link libsodium: the hash that guards installed plugins.
#pragma once

#include <string>
#include <string_view>

namespace attnlab {

/// 64 lower-case hexadecimal digits.
std::string sha256_text(std::string_view bytes);
/// Of a regular file's contents. @throws FileError.
std::string sha256_text_of_file(const std::string& path);

}  // namespace attnlab
