// What an exception says to people.
#pragma once

#include <exception>
#include <string>

namespace attnlab {

/// Its own text; where memory ran out, or a size is beyond all memory, what to look at; where
/// train.deterministic does not allow an operation, which one.
std::string text_of(const std::exception& error);

/// What is said of anything else that a plugin throws.
inline constexpr const char* kNoException = "something that is not a std::exception was thrown";

}  // namespace attnlab
