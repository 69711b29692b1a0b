// Texts as some editors and shells of Windows write them.
#pragma once

#include <string>
#include <string_view>

namespace attnlab::testing {

/// UTF-8 with a byte-order mark.
inline std::string marked(std::string_view text) { return "\xef\xbb\xbf" + std::string(text); }

/// ASCII as UTF-16 with its mark, little-endian.
inline std::string utf16(std::string_view ascii) {
  std::string out = "\xff\xfe";
  for (const char c : ascii) out += {c, '\0'};
  return out;
}

}  // namespace attnlab::testing
