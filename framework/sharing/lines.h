// A small text and its lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/base/byte_order_mark.h"
#include "framework/sharing/errors.h"

namespace attnlab::sharing {

/// The text of a file without the byte-order mark of an editor that it went through.
/// @throws BundleError for UTF-16
inline std::string_view unmarked(std::string_view text) {
  const std::string wrong = wrong_encoding(text);
  if (!wrong.empty()) throw BundleError(wrong);
  return without_mark(text);
}

/// Without line feeds; a last line without one counts, too.
inline std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

}  // namespace attnlab::sharing
