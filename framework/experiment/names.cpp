#include "framework/experiment/names.h"

#include <fmt/format.h>

#include <algorithm>

namespace attnlab {

std::string name_problem(const std::string& name) {
  if (name.empty()) return "expected a word";
  if (name.find_first_of("/\\") != std::string::npos) return "expected a word without slashes";
  if (name == "." || name == "..") {
    return fmt::format("'{}' stands for a folder that is there already; choose another word", name);
  }
  const bool control =
      std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  return control ? "expected a word without control characters" : "";
}

}  // namespace attnlab
