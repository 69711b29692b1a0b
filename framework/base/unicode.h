// UTF-8: what is valid, and how wide it shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace attnlab {

/// Whether a byte of valid UTF-8 is the first of a character.
bool begins_character(char byte);

/// Bytes of the UTF-8 character that a text begins with; 0 where it begins with none (RFC 3629).
std::size_t character_size(std::string_view text);

/// The code point of one such character. @param character  its bytes, as many as `character_size`
std::uint32_t code_point(std::string_view character);

/// A code point as a character. @param code  at most U+10FFFF, no surrogate
std::string utf8_character(std::uint32_t code);

bool is_utf8(std::string_view text);

/// The text with every byte that is not part of valid UTF-8 replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

/// Columns that a text takes on a terminal, one for each code point.
std::size_t display_width(std::string_view text);

/// The longest beginning of a text that is at most so wide.
std::string_view display_prefix(std::string_view text, std::size_t width);

}  // namespace attnlab
