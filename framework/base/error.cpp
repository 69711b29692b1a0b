#include "framework/base/error.h"

#include <fmt/format.h>

#include <mutex>
#include <unordered_set>

namespace attnlab {
namespace {

/// The same text at the same address, until the process ends.
const std::string* shared(std::string_view text) {
  static std::mutex guard;
  static auto& all = *new std::unordered_set<std::string>;  // errors may name files to the end
  const std::lock_guard lock(guard);
  return &*all.emplace(text).first;
}

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

const std::string FileName::none_;

FileName::FileName(std::string_view text) : text_(text.empty() ? &none_ : shared(text)) {}

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
