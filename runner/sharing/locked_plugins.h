// The plugins that a result's runs used, in use while they are repeated.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "framework/base/file_lock.h"
#include "framework/sharing/install.h"
#include "framework/sharing/keyring.h"
#include "framework/sharing/result_locks.h"
#include "framework/sharing/store.h"
#include "runner/arguments.h"

namespace attnlab {

/// Installs the bundles in a result, each of which one of its locks names. What they take the place
/// of comes back into use when this goes; that is said before. What a killed call left in use goes
/// back, too.
class LockedPlugins {
 public:
  /// @param arguments  of attnlab reproduce
  /// @param keys  outlives this
  /// @throws as sharing::install; ConfigError where another call has one of them in use for now.
  LockedPlugins(const sharing::Bundle& result, const Arguments& arguments,
                const sharing::Places& places, sharing::Keyring& keys);
  ~LockedPlugins();
  LockedPlugins(const LockedPlugins&) = delete;
  LockedPlugins& operator=(const LockedPlugins&) = delete;

 private:
  /// @param needed  SHA-256 of the result's own bundles
  void end_what_was_left(const std::set<std::string>& needed);
  bool is_ours(const sharing::Installed& one) const;
  void go_back() noexcept;

  sharing::Store store_;
  const sharing::Keyring& keys_;
  sharing::InstallOptions options_;
  std::vector<sharing::Installed> in_place_of_others_;
  std::vector<std::unique_ptr<FileLock>> locks_;  ///< of these
};

/// Compares what the runs used with what this machine would use.
/// @param allow_others  other bundles of the same plugins will do
/// @returns what differs, in sentences.
/// @throws PluginError for a plugin that is not there, TrustError for another bundle of one.
std::vector<std::string> check_locked_parts(const sharing::ResultLocks& locks, bool allow_others);

}  // namespace attnlab
