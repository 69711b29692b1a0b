// lock.json, in every run's and suite's folder: which code and data its numbers are of, so that
// another machine can tell whether it has the same.
//
//   framework    version and revision (revision.h)
//   parts        each plugin: kind, id, version, hash of its file, its build stamp; of one from a
//                bundle also the bundle's SHA-256 and the key that signed it
//   data         fingerprints of the datasets, with seed 0
//   evaluations  of a run, by entry of `evaluate:`: {"parts": plugins that are not above,
//                "data": the fingerprint of its dataset with the run's seed, once it was evaluated}
//
// Entries may be added to a finished run, and evaluated again with another version of a plugin, so
// they are kept apart from what the run was trained with. A suite's lock has all in its two lists.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "framework/experiment/evaluations.h"
#include "framework/experiment/experiment.h"

namespace attnlab {

inline constexpr const char* kLockFile = "lock.json";

/// @param data  fingerprints; unknown ones are left out
/// @throws PluginError, FileError when a plugin's file cannot be read.
std::string lock_text(const std::vector<const Experiment*>& experiments,
                      const std::set<std::string>& data);

/// Adds entries that a run's lock does not have yet. A run without a lock (a stored result, one of
/// an earlier attnlab) stays without. The run's folder must be held.
/// @throws DataError for a damaged lock; as lock_text.
void lock_entries(const std::string& run_folder, const std::vector<EvaluationEntry>& entries);

/// Writes what an entry was evaluated with, in place of what the lock had of it.
/// @param data  the fingerprint of its dataset
void lock_evaluation(const std::string& run_folder, const EvaluationEntry& entry,
                     const std::string& data);

/// Fingerprints of the data that a run was evaluated on; none of a damaged lock, which whoever
/// packs the run is told of.
std::set<std::string> evaluation_data(const std::string& run_folder);

/// A plugin as a lock names it.
struct LockedPart {
  std::string kind, id, version, hash;  ///< "task", "attnlab/image_attack", "1.0.0"; of its file
};
/// The plugins of a run.
struct LockedParts {
  std::vector<LockedPart> own;  ///< what it was trained with, judges included
  /// By entry of `evaluate:`: those that are not among its own.
  std::map<std::string, std::vector<LockedPart>> evaluations;
};

/// What a run's lock names; empty of a run without one. @throws DataError for a damaged lock.
std::optional<LockedParts> locked_parts(const std::string& run_folder);

}  // namespace attnlab
