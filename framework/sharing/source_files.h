// The files of a plugin's folder that go into its bundle.
#pragma once

#include <string>
#include <vector>

#include "framework/sharing/archive.h"

namespace attnlab::sharing {

struct SourceFiles {
  std::vector<ArchiveFile> source;    ///< paths below the folder
  std::vector<ArchiveFile> expected;  ///< below expected/, with that in their paths
};

/// Left out: names that begin with a dot, CMake's build folders, bundles and signatures.
/// @throws BundleError for a link or a device, a name that may not be in a bundle, and a folder
/// without CMakeLists.txt or without a licence (LICENSE, LICENCE or COPYING).
SourceFiles source_files(const std::string& folder);

}  // namespace attnlab::sharing
