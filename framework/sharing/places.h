// Where on this machine what is shared is kept.
#pragma once

#include <string>

namespace attnlab::sharing {

/// The folders below a user's home.
struct Places {
  std::string config;  ///< ~/.config/attnlab: keys, policy, indices
  std::string share;   ///< ~/.local/share/attnlab: plugins

  /// @throws ConfigError where $HOME is not set.
  static Places of_this_user();

  std::string keys() const { return config + "/keys"; }
  std::string policy() const { return config + "/policy.yaml"; }
  std::string indices() const { return config + "/indices"; }
  std::string plugins() const { return share + "/plugins"; }
  /// Where what was installed lies; the host does not look in here.
  std::string installed() const { return plugins() + "/installed"; }
  std::string logs() const { return share + "/logs"; }
};

/// Makes a folder with those above it. @throws FileError.
/// @param secret  nobody but the user may look in
void make_folder(const std::string& path, bool secret = false);

}  // namespace attnlab::sharing
