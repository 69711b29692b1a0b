#include "framework/base/byte_order_mark.h"

#include <fmt/format.h>

namespace attnlab {

std::string_view without_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

std::string_view marked_encoding(std::string_view text) {
  using namespace std::string_view_literals;
  // (UTF-32's little-endian mark begins with that of UTF-16.)
  if (text.starts_with("\xff\xfe\0\0"sv) || text.starts_with("\0\0\xfe\xff"sv)) return "UTF-32";
  return text.starts_with("\xff\xfe"sv) || text.starts_with("\xfe\xff"sv) ? "UTF-16" : "";
}

std::string wrong_encoding(std::string_view text) {
  const std::string_view encoding = marked_encoding(text);
  if (encoding.empty()) return "";
  return fmt::format("is not UTF-8 but {0}; convert the file (iconv -t UTF-8 -f {0})", encoding);
}

}  // namespace attnlab
