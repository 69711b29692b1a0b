// What `attnlab plugin install` noted of a plugin's library, in record.json beside it.
#pragma once

#include <optional>
#include <string>

#include "framework/manifest/discovery.h"

namespace attnlab {

/// The bundle that a library came in (framework/sharing/store.h).
struct InstalledFrom {
  std::string id, version;
  std::string bundle;        ///< SHA-256 of the bundle's file
  std::string key;           ///< the id of the key that signed it; empty: unsigned
  std::string library_hash;  ///< SHA-256 when it was installed
};

/// SHA-256 of a plugin's library; of a Python file, of all that lies in its folder, too.
/// @throws FileError.
std::string installed_hash(const std::string& library);

/// @param path  a plugin's file (`Candidate::path`), or a link to it
/// @returns nothing for a library that was not installed from a bundle.
/// @throws PluginError for a damaged record, and where a library in the store has none.
std::optional<InstalledFrom> installed_from(const std::string& path);

/// Refuses a library that is not the one that was installed and checked, one whose key was revoked
/// since, and an unsigned one where the user's policy refuses those. Libraries that were not
/// installed from a bundle pass.
/// @throws PluginError saying what to do, ConfigError for a wrong policy.
void check_installed(const std::string& path);

/// All plugins of this program; those that `check_installed` refuses are refused.
/// @throws ConfigError for a wrong policy.
Catalogue catalogue_of_installed();

}  // namespace attnlab
