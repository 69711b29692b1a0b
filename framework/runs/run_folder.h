// A run's folder: frozen configuration, origins, environment, metrics, checkpoint, status.
//
//   runs/<suite>/<experiment>/<attention>/<seed>-<hash>/
//     config.yaml             every value, defaults included; `attnlab run` takes the folder again
//     identity.json           what <hash> was made of: configuration, plugin files, data
//     lock.json               its plugins, bundles, stamps, data and framework: lock_file.h
//     origins.txt             where each value came from
//     environment.json        machine, versions, plugins with their hashes
//     metrics.jsonl           a line per logged step and evaluation
//     checkpoint.safetensors  parameters, optimiser, position; replaced atomically
//     status.json             state and result; replaced atomically
//     evaluations/            one file for each entry of `evaluate:`: evaluations.h
//     lock                    held while a process runs the folder: run_lock.h
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>

#include "framework/experiment/experiment.h"
#include "framework/experiment/identity.h"

namespace attnlab {

enum class RunState { pending, running, interrupted, done, diverged, failed };

std::string_view name_of(RunState state);
/// @throws DataError for an unknown name.
RunState parse_state(const std::string& name);

struct RunStatus {
  RunState state = RunState::pending;
  std::int64_t step = 0, steps = 0;
  double epoch = 0;
  double seconds = 0;  ///< spent training and evaluating, over all times that it was begun
  std::map<std::string, double> metrics;  ///< of the end; throughput included
  std::string reason;                     ///< of diverged and failed
  /// Of the processors, by all threads of all processes of the run. Where runs are trained together
  /// in one process, each has an equal share. 0: an earlier version, which did not count it.
  double processor_seconds = 0;
  /// Likewise of GPUs, for each process of the run. 0 on the CPU.
  double device_seconds = 0;

  /// Nothing is left to do: done or diverged (a divergence is a result).
  bool finished() const { return state == RunState::done || state == RunState::diverged; }
};

/// Writes processor and device time into a record, where they were counted.
void add_used_time(const RunStatus& status, nlohmann::json& record);
/// Reads them. @throws nlohmann::json::exception where one is not a number.
void read_used_time(const nlohmann::json& record, RunStatus& status);

/// When a run was begun, in seconds since 1970, and its place: where several runs could be meant,
/// the greatest counts. Of two of one second the place decides, so that all machines choose alike.
using RunStart = std::pair<std::int64_t, std::string>;

/// The folder below which runs are filed unless the command says another.
inline constexpr const char* kRunsFolder = "runs";

class RunFolder {
 public:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}

  /// The folder of one seed of an experiment below `root` (kRunsFolder or "runs/<suite>").
  static RunFolder of(const std::string& root, const Experiment& experiment, std::int64_t seed,
                      const Identity& identity);
  /// The same where the data's fingerprint is not known.
  static RunFolder of(const std::string& root, const Experiment& experiment, std::int64_t seed);

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  bool exists() const;
  /// "experiment/attention/seed-hash", as records have it.
  std::string place() const;
  /// By environment.json, which a copy of the folder keeps; where that says nothing (the run has
  /// not begun, or the file is damaged), by the time of the file config.yaml.
  RunStart start() const;
  /// "vit_fashion_small/quest/0": how progress and tables call the run.
  static std::string label(const Experiment& experiment, std::int64_t seed);

  /// Creates the folder with the configuration, origins and identity of one seed. An existing
  /// folder is left as it is (its name carries the identity's hash, so it holds the same).
  void freeze(const Experiment& experiment, std::int64_t seed, const Identity& identity) const;
  /// The same where the data's fingerprint is not known.
  void freeze(const Experiment& experiment, std::int64_t seed) const;

  /// @throws DataError for a damaged status; a missing one is `pending`.
  RunStatus status() const;
  void write_status(const RunStatus& status) const;

  /// @throws ConfigError when this is not a run folder.
  Experiment experiment(const Catalogue& catalogue) const;

 private:
  std::string path_;
};

}  // namespace attnlab
