#include "framework/base/cache_folder.h"

#include <cstdlib>
#include <utility>

namespace attnlab {

std::string cache_folder() {
  for (const auto& [variable, below] :
       {std::pair{"XDG_CACHE_HOME", "/attnlab"}, std::pair{"HOME", "/.cache/attnlab"}}) {
    const char* value = std::getenv(variable);
    if (value != nullptr && *value == '/') return std::string(value) + below;
  }
  return "";
}

}  // namespace attnlab
