// How the text of a data file is encoded: UTF-8, with a byte-order mark or without.
#pragma once

#include <string>
#include <string_view>

#include "framework/base/error.h"

namespace attnlab {

/// The text behind a UTF-8 byte-order mark, if it has one.
/// @param path  for messages
/// @throws DataError for UTF-16 and UTF-32, naming the file and iconv
std::string_view without_mark(std::string_view text, const std::string& path);

}  // namespace attnlab
