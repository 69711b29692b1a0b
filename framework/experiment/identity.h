// What makes a run the run that it is: its configuration, its plugins' files, its data, and the
// framework that computes.
//
// A run's folder carries a hash of them, so that a finished run is never run twice, and
// identity.json in it keeps them apart, so that it can be said which of them has changed since.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/experiment/experiment.h"

namespace attnlab {

/// A plugin's file.
struct PluginFile {
  std::string name;  ///< the plugin's: "quest"
  std::string hash;  ///< of the file's contents
};

struct Identity {
  std::string configuration;  ///< Experiment::hash()
  /// By section: "model", "attention", "attention.layers.last", "task", "dataset", "judging task"
  /// and the like for others that choose the epoch (Experiment::judges), and "init.from" for a file
  /// that parameters begin with.
  std::map<std::string, PluginFile> plugins;
  /// The dataset's fingerprint with seed 0 (data made by rule have one for each seed, and a run's
  /// seed stands in its folder's name anyway); empty where it is not known.
  std::string data;
  std::string framework{};  ///< framework_revision(); empty in records of an earlier attnlab
  /// Other revisions for which the run was accepted, by a person's word.
  std::vector<std::string> accepted{};

  /// 16 hexadecimal digits of everything but `accepted`.
  std::string hash() const;
};

/// @param data  the dataset's fingerprint with seed 0, or empty
/// @throws FileError when a plugin's file cannot be read; ConfigError with the place of `init.from`
/// where there is no such file.
Identity identity_of(const Experiment& experiment, const std::string& data);

/// What differs between two identities of one configuration, for people: "the file of attention
/// 'quest' changed", "the data of dataset 'cifar' changed". Data are compared where both are known;
/// a revision that the earlier one was accepted for is none that differs.
std::vector<std::string> changes_between(const Identity& before, const Identity& now);

/// "the framework changed (revision a -> b)"; empty where it did not, or that was accepted.
std::string framework_change(const Identity& before, const Identity& now);

/// Records in a run's identity.json that it counts for another revision of the framework, too.
/// @throws FileError, DataError.
void accept_revision(const std::string& run_folder, const std::string& revision);

std::string identity_json(const Identity& identity);
/// Reads a run's identity.json. Empty where there is none (of a run by an earlier attnlab).
/// @throws DataError naming a damaged file.
std::optional<Identity> read_identity(const std::string& run_folder);

/// A hash of a file's contents, read again only when its time or size has changed. Of a Python file
/// (`PythonName`): of what it imports, too, and of versions. @throws FileError, PluginError.
std::string file_hash(const std::string& path);

/// Versions that count for the hash of a Python file: of Python, torch and each package that it
/// imports. Empty for a library. @throws PluginError.
std::map<std::string, std::string> versions_behind(const std::string& path);

/// One text for all ways to write a value: `1e-3`, `0.001` and `1.0e-3` are alike, and so are `a`
/// and `"a"`; `"1.0"` and `1.0` are not. Options of type string that look like numbers are quoted
/// in resolved configurations.
std::string canonical_text(const Node& node);

}  // namespace attnlab
