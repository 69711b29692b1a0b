// A plugin's folder becomes a bundle.
#pragma once

#include <string>
#include <vector>

#include "runner/sharing/workshop.h"

namespace attnlab {

struct PackOptions {
  WorkshopOptions workshop;
  bool kit = true;
  bool binary = false;                     ///< the library that was built goes in, too
  std::vector<std::string> binaries = {};  ///< so do these libraries, which were built elsewhere
  bool sign = true;                        ///< where there is a key of the plugin's lab
};

struct PackedBundle {
  std::string name;  ///< of its file
  std::string bytes;
};

/// Builds and checks the folder's source, and packs it; says on the standard error what it does.
/// @throws BundleError, TrustError, FileError.
PackedBundle pack_folder(const std::string& folder, const PackOptions& options);

}  // namespace attnlab
