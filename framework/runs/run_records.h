// What finished and unfinished runs left on disk, read without plugins and without LibTorch, and
// whether they may be compared.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/config/node.h"
#include "framework/runs/absence.h"
#include "framework/runs/folder_state.h"
#include "framework/runs/page_spec.h"
#include "framework/runs/published.h"
#include "framework/runs/run_config.h"
#include "framework/runs/run_result.h"
#include "framework/runs/run_search.h"
#include "framework/runs/suite_point.h"
#include "framework/runs/tuning.h"

namespace attnlab {

/// A run's folder: which run it is, and what it left behind.
struct RunRecord : RunResult {
  std::string folder;
  std::string experiment, attention;  ///< the attention's label
  std::int64_t seed = 0;
  RunConfig config;  ///< frozen: every value
  /// Options that a suite's `match:` adjusted, with what it held: "model.dim" and "match of
  /// parameters with standard".
  std::map<std::string, std::string> matched;
  /// Of its folder; empty where a file could change without it.
  std::optional<FolderState> files;

  /// False: nothing of that name is in its folder.
  bool may_hold(std::string_view name) const { return !files || files->may_hold(name); }

  /// "vit/quest/0".
  std::string label() const;
};

/// What a suite wrote beside its runs (suite.json; table.json of an earlier attnlab).
struct SuiteRecord {
  std::string folder, baseline;
  Node compare;                    ///< its `compare:` section; null without one
  std::string planned_test;        ///< chosen by the number of planned seeds; empty: the default
  std::vector<std::string> runs;   ///< "experiment/attention/seed-hash" of its present cells
  std::vector<AbsentCell> absent;  ///< its skipped, incompatible and stale cells
  std::vector<std::string> notes;  ///< what readers of its table must know, e.g. "synthetic data"
  std::vector<SuitePoint> points;  ///< of its `grid:`, in its order; empty without one
  std::vector<std::string> pool;   ///< axes of the grid that tables are pooled by
  std::vector<PublishedNumbers> published;  ///< its `reference:`
  std::optional<PageSpec> page;             ///< its `page:`
  std::optional<TuningRecord> tuning;       ///< what the tries of its `tune:` came to
  std::vector<std::string> tries;           ///< their runs, as in `runs`
};

struct RunCollection {
  std::vector<RunRecord> runs;  ///< by experiment, attention and seed
  std::vector<SuiteRecord> suites;
  std::vector<AbsentCell> absent;  ///< the suites' own, of all of them, and what is unreadable
  std::vector<Unreadable> unreadable;
  std::vector<std::string> notes;  ///< the suites' and runs' own; what was left out, and why
};

/// Reads a run's folder. @throws ConfigError or DataError naming the damaged file.
RunRecord read_run(const std::string& folder);
/// The same as one of many, which share what their configurations have in common.
RunRecord read_run(const std::string& folder, ConfigPool& pool);

/// The record of the suite or sweep that is filed in `folder`; empty where none is.
/// @throws DataError for a damaged one.
std::optional<SuiteRecord> read_suite(const std::string& folder);

/// Every run in or below the folders, each once. Below a suite's folder, runs that its record does
/// not name are of earlier configurations, plugin files or data: left out, with a note (the tries
/// of its `tune:`, which are not results, without one). So are those of suites below a suite's
/// folder that is one of the folders; else the nearest suite decides. A run that cannot be read is
/// absent, with a note; the rest goes on.
/// @throws ConfigError for a folder that is not there or holds no run, and for two runs of one
///         experiment, attention and seed (with what they differ in); DataError where no run can
///         be read.
RunCollection find_runs(const std::vector<std::string>& folders);

/// "a, b, c, d and 5 more": labels of runs, in a sentence.
std::string first_of(std::vector<std::string> labels);
/// The same, of runs one after another.
class FirstLabels {
 public:
  void add(const RunRecord& run);
  std::string text() const;

 private:
  std::vector<std::string> first_;
  std::size_t count_ = 0;
};

/// Which framework revisions runs are of.
class Revisions {
 public:
  void add(const RunRecord& run);
  /// "runs of 2 framework revisions are compared: ..."; empty where all have one.
  std::optional<std::string> note() const;

 private:
  std::map<std::string, FirstLabels> runs_;  // by revision
};
std::optional<std::string> revisions_note(const std::vector<RunRecord>& runs);

/// What the runs say about their metrics.
MetricBook book_of(const std::vector<RunRecord>& runs);

/// A value in which runs of one experiment differ that is not the attention's.
struct ConfigDifference {
  std::string experiment;
  std::string key;  ///< "train.epochs"; "environment: data.fingerprint"
  /// Each value with the runs that have it: "standard seeds 0, 1".
  std::vector<std::pair<std::string, std::string>> values;

  /// "vit: train.epochs is 2 in standard (seeds 0, 1), 3 in quest (seed 0)".
  std::string text() const;
};

/// What must be equal for a fair comparison and is not: within an experiment, every value of the
/// frozen configurations but name, seeds, attention and what `match:` adjusted in one of the runs
/// (that is part of the attention), and the files of the other plugins; within
/// an experiment and attention, the attention's options and file; within an experiment and seed,
/// the data's fingerprint.
std::vector<ConfigDifference> differences_of(const std::vector<RunRecord>& runs);

/// The values that `match:` gave: "vit: model.dim is 124 in quest (seeds 0, 1)...".
std::vector<ConfigDifference> matched_values(const std::vector<RunRecord>& runs);

/// What may change last digits and speed: machine, threads, device, versions.
std::vector<ConfigDifference> surroundings_of(const std::vector<RunRecord>& runs);

/// What one entry of `evaluate:` changed, where that differs within an experiment.
std::vector<ConfigDifference> evaluation_differences(const std::vector<RunRecord>& runs);

/// How many values of a run's configuration `differences_of` compares; the most that a run has.
std::size_t compared_values(const std::vector<RunRecord>& runs);

}  // namespace attnlab
