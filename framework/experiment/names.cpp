#include "framework/experiment/names.h"

#include <fmt/format.h>

#include "framework/base/foreign_text.h"

namespace attnlab {

std::string name_problem(const std::string& name) {
  if (name.empty()) return "expected a word";
  if (name.find_first_of("/\\") != std::string::npos) return "expected a word without slashes";
  if (name == "." || name == "..") {
    return fmt::format("'{}' stands for a folder that is there already; choose another word", name);
  }
  if (name.size() > kLongestName) {
    return fmt::format("a name of {} bytes is too long to be a file's; at most {}", name.size(),
                       kLongestName);
  }
  const bool control = printable(name) != name || name.find('\n') != std::string::npos;
  return control ? "expected a word without control characters" : "";
}

}  // namespace attnlab
