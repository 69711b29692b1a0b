#include "framework/base/error.h"

#include <fmt/format.h>

namespace attnlab {
namespace {

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    if (!text.empty()) text += '\n';
    text += line;
  }
  return text;
}

std::string without_zeros(const std::string& text) {
  if (text.find('\0') == std::string::npos) return text;
  std::string out;
  for (const char c : text) out += c == '\0' ? "\\x00" : std::string(1, c);
  return out;
}

}  // namespace

Error::Error(const std::string& what) : std::runtime_error(without_zeros(what)) {}

const std::string& FileName::text() const {
  static const std::string none;
  return text_ == nullptr ? none : *text_;
}

std::string Place::str() const {
  std::string text = file;
  if (line > 0) {
    text += fmt::format("{}{}", text.empty() ? "line " : ":", line);
    if (column > 0) text += fmt::format(":{}", column);
  }
  return text;
}

ConfigError::ConfigError(const std::vector<std::string>& problems) : Error(joined(problems)) {}

}  // namespace attnlab
