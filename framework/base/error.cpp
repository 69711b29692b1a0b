#include "framework/base/error.h"

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
    text += (text.empty() ? "line " : ":") + std::to_string(line);
    if (column > 0) text += ":" + std::to_string(column);
  }
  return text;
}

ConfigError::ConfigError(const std::vector<std::string>& problems) : Error(joined(problems)) {}

}  // namespace attnlab
