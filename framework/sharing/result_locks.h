// What a result's locks (framework/runs/lock_file.h) say of the code and the data of its runs.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "framework/sharing/bundle.h"

namespace attnlab::sharing {

/// A plugin that a run used.
struct LockedPart {
  std::string kind, id, version;
  std::string bundle;  ///< SHA-256 of the bundle that it was installed from; empty: from none
  bool operator<(const LockedPart& other) const {
    return std::tie(kind, id, version, bundle) <
           std::tie(other.kind, other.id, other.version, other.bundle);
  }

  /// "attention acme/sharp 1.0.0".
  std::string label() const;
};

/// Of some runs.
struct ResultLocks {
  std::set<LockedPart> parts;       ///< those of evaluations, too
  std::set<std::string> revisions;  ///< of the framework
  std::set<std::string> data;       ///< fingerprints
  /// Fingerprints by entry of `evaluate:`; of one that was not evaluated yet, empty.
  std::map<std::string, std::string> evaluations;

  /// Takes a lock's text in. @throws BundleError for a damaged one.
  void add(const std::string& text);
  bool names_bundle(const std::string& sha256) const;
};

/// What the lock in a run's folder says; empty of a run without one.
/// @throws BundleError for a damaged one.
std::optional<ResultLocks> read_locks(const std::string& run_folder);

/// A class in a Python file that a result's run names and keeps. Runs may share one.
struct SharedClass {
  std::string name;                  ///< as configurations name it: a `PythonName`
  std::vector<std::string> options;  ///< "options.temperature=2", what it is given
  std::string path;                  ///< the name with the whole path of one of them
  bool operator<(const SharedClass& other) const {
    return std::tie(name, options) < std::tie(other.name, other.options);
  }
};

/// The Python files in an unpacked run of a result, which whoever repeats it will run.
/// @param folder  of the run
/// @throws TrustError for one that the run's configuration does not name, or that is not what its
/// name there says, and for a configuration that names one elsewhere; PluginError.
std::set<SharedClass> shared_classes(const std::string& folder);

/// Refuses plugins in a result that no run used: whoever repeats the runs would install them.
/// @throws TrustError naming one.
void refuse_plugins_without_lock(const Bundle& result, const ResultLocks& locks);

}  // namespace attnlab::sharing
