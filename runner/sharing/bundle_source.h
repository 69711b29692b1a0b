// Where a bundle comes from: a file, a folder, a web address, or a name in an index.
#pragma once

#include <functional>
#include <string>

#include "framework/sharing/keyring.h"
#include "framework/sharing/places.h"

namespace attnlab {

struct BundleSource {
  std::string bytes;
  std::string origin;  ///< what messages call it
  std::string sha256;  ///< that an index promises; empty: none does
};

using Say = std::function<void(const std::string& line)>;

/// @throws ConfigError when the word names nothing.
BundleSource bundle_source(const std::string& word, const sharing::Places& places,
                           sharing::Keyring& keys, const sharing::Ask& ask, const Say& say);

/// Of a plugin in the indices; empty: it is in none.
std::string newest_version(const std::string& id, const sharing::Places& places,
                           sharing::Keyring& keys, const Say& say);

}  // namespace attnlab
