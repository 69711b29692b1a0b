// Text that is not ours (of plugins, files and their names, exceptions), made fit for a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace attnlab {

/// Bytes that `one_line` keeps by default.
inline constexpr std::size_t kLongestLine = 500;

/// Of a character's code: C0, C1, delete, and what turns the order in which characters are shown.
bool is_control(std::uint32_t code);

/// The text without what moves a terminal's cursor, colours it or turns the order of characters:
/// such characters, and bytes that are not UTF-8, are written as \x1b or \u202e. Line feeds stay.
std::string printable(std::string_view text);

/// The same on one line, each white space within as one blank, cut behind `most` bytes with "...".
std::string one_line(std::string_view text, std::size_t most = kLongestLine);

/// Without the lines in which LibTorch says where in its own code an error arose.
std::string without_backtrace(std::string_view text);

}  // namespace attnlab
