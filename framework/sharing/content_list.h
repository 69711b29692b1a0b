// What a bundle says of itself: bundle.json, its first words and the list of its files with hashes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/manifest/manifest.h"
#include "framework/sharing/archive.h"
#include "framework/sharing/names.h"

namespace attnlab::sharing {

inline constexpr const char* kContentList = "bundle.json";
/// Its bytes: 100,000 files with the longest paths. It is read before anybody is trusted.
inline constexpr std::size_t kLargestContentList = std::size_t{40} << 20;

/// A library that is ready to be loaded where its stamp fits.
struct Binary {
  std::string path;  ///< in the bundle
  Stamp stamp;
};

struct Contents {
  std::string type;  ///< "plugin" or "result"
  Id id;
  std::string version;
  std::string kind;  ///< of a plugin: attention, model, task, dataset
  std::string summary, citation, licence;
  std::string attnlab;  ///< the version that packed it
  std::vector<Binary> binaries;
};

/// The text of bundle.json for these files, which do not hold it yet.
std::string write_contents(const Contents& contents, const std::vector<ArchiveFile>& files);

/// Checks every file against the list: none is missing, none is there that it does not name, sizes,
/// hashes and modes are right. @throws BundleError.
Contents read_contents(const std::string& json, const std::vector<ArchiveFile>& files);

}  // namespace attnlab::sharing
