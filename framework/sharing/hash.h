// Hashes and base64, by libsodium.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace attnlab::sharing {

using Blake2b = std::array<unsigned char, 64>;

/// Makes libsodium ready; may be called often. @throws Error.
void start_sodium();

/// 64 lower-case hexadecimal digits.
std::string sha256(std::string_view bytes);

/// BLAKE2b with 512 bits, without a key: what minisign signs.
Blake2b blake2b(std::string_view bytes);

std::string to_hex(std::string_view bytes);
std::string to_base64(std::string_view bytes);
/// Strict: no white space, full padding, no bits beyond the last byte.
/// @throws BundleError for anything else.
std::string from_base64(std::string_view text);

}  // namespace attnlab::sharing
