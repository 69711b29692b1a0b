// The lines of a small text.
#pragma once

#include <string_view>
#include <vector>

namespace attnlab::sharing {

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
