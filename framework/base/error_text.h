// What an exception says to people.
#pragma once

#include <exception>
#include <string>

namespace attnlab {

/// Its own text; where memory ran out, or a size is beyond all memory, what to look at.
std::string text_of(const std::exception& error);

}  // namespace attnlab
