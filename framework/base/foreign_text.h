// Text that is not ours (of plugins, files and their names, exceptions), made fit for a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace attnlab {

/// Bytes that `one_line` keeps by default.
inline constexpr std::size_t kLongestLine = 500;
/// Bytes of one line of a message or a note, which may name several paths.
inline constexpr std::size_t kLongestMessageLine = 2000;
/// Lines of one message.
inline constexpr std::size_t kMostMessageLines = 200;
/// Bytes of a file that `excerpt` keeps by default.
inline constexpr std::size_t kLongestExcerpt = 100;

/// Of a character's code: C0, C1, delete, and what turns the order in which characters are shown.
bool is_control(std::uint32_t code);

/// The text without what moves a terminal's cursor, colours it or turns the order of characters:
/// C0 and bytes that are not UTF-8 are written as \x1b, other characters as \u009b or \u202e, which
/// JSON and quoted YAML read as what they were. Line feeds stay.
std::string printable(std::string_view text);

/// The same on one line, each white space within as one blank, cut behind `most` bytes with "...".
std::string one_line(std::string_view text, std::size_t most = kLongestLine);

/// What a file holds (a word, the rest of a line), as messages quote it: on one line as above, cut
/// behind `most` bytes, in single quotes. Zero bytes become \x00: none ends a message.
std::string excerpt(std::string_view text, std::size_t most = kLongestExcerpt);

/// As `printable`, on the lines that the text has, without LibTorch's backtrace: long lines are
/// cut, and of very many the rest is counted.
std::string message_text(std::string_view text);

/// Without the lines in which LibTorch says where in its own code an error arose.
std::string without_backtrace(std::string_view text);

}  // namespace attnlab
