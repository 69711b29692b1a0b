// Byte-order marks: what some programs write in front of a text to say how it is encoded.
#pragma once

#include <string>
#include <string_view>

namespace attnlab {

/// The text behind the mark of UTF-8, if it has one. The mark is not part of a text.
std::string_view without_mark(std::string_view text);

/// "UTF-16" or "UTF-32" where a text begins with the mark of one; else "".
std::string_view marked_encoding(std::string_view text);

/// What is wrong with a text whose mark says UTF-16 or UTF-32, and the remedy; "" for other texts.
std::string wrong_encoding(std::string_view text);

}  // namespace attnlab
