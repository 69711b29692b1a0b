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

}  // namespace

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
