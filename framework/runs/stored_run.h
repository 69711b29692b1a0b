// Finished runs in a compact form that is kept with a repository or sent to another machine: what a
// run was and what came of it, without checkpoint, curves and logs. One file per run, JSON with one
// line per value, some kilobytes:
//
//   FOLDER/EXPERIMENT/ATTENTION/SEED-HASH.json
//     {"schema": 1, "experiment": ..., "attention": ..., "seed": 0,
//      "identity": {"configuration", "data", "framework", "numbers",
//      "plugins": {KIND: {"id", "version", "hash"}}, "judges": {"KIND ID": VERSION},
//      "evaluations": {ENTRY: {"KIND ID": VERSION}}}, "config": [lines of config.yaml], "status":
//      {"state", "step", "steps", "epoch", "seconds", "reason", "metrics"}, "environment": {what
//      comparisons read of environment.json}, "evaluations": [{"entry", "hash", "split", "set",
//      "metrics", "infos", "seconds", "weights"}]}
//
// A suite with `stored:` restores such a file as a run's folder where everything agrees
// (framework/suites/stored_cells.h); the folder's stored.json says where it came from.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/numbers_version.h"
#include "framework/experiment/identity.h"
#include "framework/runs/evaluations.h"
#include "framework/runs/run_folder.h"

namespace attnlab {

struct RunRecord;

/// What is known of a plugin's file beside its hash, which is of one build on one machine.
struct StoredPlugin {
  std::string id, version;  ///< "attnlab/quest", "1.0.0"
};

/// Versions by "KIND ID": {"task attnlab/image_attack": "1.0.0"}.
using PluginVersions = std::map<std::string, std::string>;

struct StoredRun {
  std::string file;                   ///< where it was read from
  std::string experiment, attention;  ///< the attention's label
  std::int64_t seed = 0;
  Identity identity;
  /// kNumbersVersion of the attnlab that trained it; kUnknownNumbers where that did not say.
  std::int64_t numbers = kUnknownNumbers;
  /// By section: "model", "attention", "attention.layers.last", ...
  std::map<std::string, StoredPlugin> plugins;
  PluginVersions judges;  ///< of others that choose the epoch
  /// By evaluation: the plugins that are not among the above, as it was made with them.
  std::map<std::string, PluginVersions> entries;
  std::string config;  ///< as config.yaml has it
  RunStatus status;
  std::string environment = "{}";  ///< JSON: what comparisons read
  std::vector<EvaluationRecord> evaluations;

  /// "EXPERIMENT/ATTENTION/SEED-HASH.json".
  std::string name() const;
};

/// A finished run as it is stored. Versions are those that its lock.json names, not of the plugins
/// that are installed by now.
/// @throws ConfigError for a run that is not finished, or whose lock does not name the plugins that
/// made it; DataError or FileError for damaged files.
StoredRun stored_of(const std::string& run_folder);

/// The text of the file. Equal runs give equal texts.
std::string stored_json(const StoredRun& run);
/// @throws DataError naming a damaged file, FileError for one that cannot be read.
StoredRun read_stored(const std::string& file);

/// All files of stored runs below a folder, sorted; none where there is no such folder.
/// @param unreadable  gets "FOLDER: cannot be read: why" of folders that are left out
std::vector<std::string> stored_files(const std::string& folder,
                                      std::vector<std::string>& unreadable);

/// Writes a stored run as the folder of `experiment`, complete or not at all (stored.json, which
/// says whose files the others are, comes first; config.yaml, which makes a folder a run's, last).
/// It gets no lock.json, which would name this machine's plugins; stored.json names those that the
/// numbers are of.
/// @param identity  of the cell that it stands for
void restore(const StoredRun& run, const RunFolder& folder, const Experiment& experiment,
             const Identity& identity);

/// Whether `restore` has written into the folder, to its end or not.
bool is_restored(const std::string& run_folder);

/// Removes what `restore` wrote, in an order that leaves nothing that passes for a run of this
/// machine wherever the process is killed. Does nothing where no part of a stored run lies.
/// @throws FileError.
void remove_restored(const std::string& run_folder);

/// Where a run's folder was restored from; empty for a run that was made here.
std::string stored_source(const std::string& run_folder);
/// What made a run that was restored (`identity`, `numbers`, `plugins`, `judges`, `entries`);
/// empty for a run that was made here. @throws DataError for a damaged stored.json.
std::optional<StoredRun> stored_plugins(const std::string& run_folder);

/// "stored results, not made here: quest, standard, each (cora, images: 4 runs, seeds 0, 1)"; empty
/// without.
std::optional<std::string> stored_note(const std::vector<RunRecord>& runs);

}  // namespace attnlab
