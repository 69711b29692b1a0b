#include "framework/base/foreign_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/base/unicode.h"

namespace attnlab {

bool is_control(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x061c || code == 0x200e ||
         code == 0x200f || (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

namespace {

/// ASCII that stays as it is.
bool is_plain(char c) { return (c >= 0x20 && c < 0x7f) || c == '\n'; }

/// At most so many bytes of a text, and no half of a character.
std::string shortened(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && !begins_character(text[end])) --end;
  return text.substr(0, end) + "...";
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto end = std::find_if_not(text.begin(), text.end(), is_plain);  // most is, as a whole
    out.append(text.begin(), end);
    text.remove_prefix(static_cast<std::size_t>(end - text.begin()));
    if (text.empty()) break;
    const std::size_t size = character_size(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(size, 1));
    const std::uint32_t code =
        size == 0 ? static_cast<unsigned char>(text[0]) : code_point(character);
    if (size == 0 || (code < 0x20 && code != '\n')) {
      out += fmt::format("\\x{:02x}", code);
    } else if (is_control(code) && code != '\n') {
      out += fmt::format("\\u{:04x}", code);
    } else {
      out += character;
    }
    text.remove_prefix(character.size());
  }
  return out;
}

std::string one_line(std::string_view text, std::size_t most) {
  constexpr std::size_t kLongestCharacter = 4;
  std::string words;
  for (const char c : text) {
    if (words.size() >= most + kLongestCharacter) break;  // what is cut needs no work
    const bool blank = c == ' ' || (c >= '\t' && c <= '\r');
    if (!blank) {
      words += c;
    } else if (!words.empty() && words.back() != ' ') {
      words += ' ';
    }
  }
  if (!words.empty() && words.back() == ' ') words.pop_back();
  return shortened(printable(words), most);
}

std::string excerpt(std::string_view text, std::size_t most) {
  return "'" + one_line(text, most) + "'";
}

namespace {

/// Whether a line begins with a place, "FILE:4:9: ", as editors look for.
bool names_place(std::string_view line) {
  std::size_t at = line.find(':');
  for (int number = 0; number < 2; ++number) {
    if (at == std::string_view::npos) return false;
    const std::size_t end = line.find_first_not_of("0123456789", at + 1);
    if (end == at + 1 || end == std::string_view::npos || line[end] != ':') return false;
    at = end;
  }
  return true;
}

}  // namespace

std::string message_text(std::string_view text) {
  const std::string own = without_backtrace(text);
  std::string out;
  std::string_view rest = own;
  for (std::size_t lines = 0; !rest.empty(); ++lines) {
    if (lines > 0) out += '\n';
    if (lines == kMostMessageLines) {
      return out +
             fmt::format("  ... and {} more lines", std::count(rest.begin(), rest.end(), '\n') + 1);
    }
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    // At its margin, a line would pass for the program's own. (One more problem with its place does
    // no harm.)
    const bool apart = line.empty() || line.starts_with("  ") || names_place(line);
    if (lines > 0 && !apart) out += "  ";
    out += shortened(printable(line), kLongestMessageLine);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

std::string without_backtrace(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, size);
    if (!line.starts_with("frame #") && !line.starts_with("Exception raised from ")) out += line;
    text.remove_prefix(size);
  }
  return out.substr(0, out.find_last_not_of('\n') + 1);
}

}  // namespace attnlab
