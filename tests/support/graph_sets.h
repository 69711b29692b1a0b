// What tests of graph datasets share.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/plugins.h"

namespace attnlab::testing {

/// Whether a plugin was built: some need libraries that a machine may lack.
inline bool is_installed(Kind kind, const std::string& name) {
  for (const std::string& known : registry().catalogue().names(kind)) {
    if (known == name) return true;
  }
  return false;
}

/// Whether a folder of published data is below $ATTNLAB_DATA.
inline bool has_data(const std::string& folder) {
  const char* root = std::getenv("ATTNLAB_DATA");
  return root != nullptr && std::filesystem::exists(std::string(root) + "/" + folder);
}

}  // namespace attnlab::testing
