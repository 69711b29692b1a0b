// A plugin's folder, or a Python file, becomes a bundle.
#pragma once

#include <string>
#include <vector>

#include "framework/manifest/python_file.h"
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

/// Checks a Python file, with what it imports from its folder, and packs it.
/// @param lab  whose plugin it is
/// @throws PluginError with the file's line, and as `pack_folder`.
PackedBundle pack_python(const PythonName& name, const std::string& lab,
                         const PackOptions& options);

}  // namespace attnlab
