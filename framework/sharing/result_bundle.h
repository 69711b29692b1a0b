// Results in one file: configurations, locks, metrics and tables of runs, and the bundles of the
// plugins that they used.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/runs/run_records.h"
#include "framework/sharing/bundle.h"
#include "framework/sharing/store.h"

namespace attnlab::sharing {

/// The files of a result.
struct ResultFiles {
  std::vector<ArchiveFile> files;  ///< runs/run-00001/..., tables/..., plugins/...
  std::vector<std::string> notes;  ///< what a reader must know
};

/// @param folder       of a suite, or of runs
/// @param checkpoints  put their parameters in, too
/// @throws ConfigError where a run is not finished, PluginError where a plugin that was installed
///         from a bundle is not the one that a run used.
ResultFiles result_files(const std::string& folder, const Store& store, bool checkpoints);

/// A run of a result, and what became of it here.
struct RunPair {
  RunRecord there;
  std::optional<RunRecord> here;  ///< empty: it could not be run
  bool other_data = false;        ///< the data here are not those that it was run on there
};

/// One metric of one attention in one experiment, there and here.
struct Reproduced {
  std::string experiment, attention, metric;
  std::vector<double> there, here;  ///< by seed, those that both have
  std::int64_t other_data = 0;      ///< runs whose data differ
  std::string verdict;              ///< "identical", "agrees", "DIFFERS", "no value", "OTHER DATA"
  std::string why;                  ///< in words
  bool agrees() const { return verdict == "identical" || verdict == "agrees"; }
};

/// Judges the headline metric of each experiment and attention: identical where every seed gives
/// the same number; agrees where the means lie within twice the standard error that the seeds'
/// spread gives; for a single seed, within 1e-6 of each other. Numbers of other data never agree.
std::vector<Reproduced> compare_results(const std::vector<RunPair>& runs);

/// A table for a terminal.
std::string reproduction_text(const std::vector<Reproduced>& all);

}  // namespace attnlab::sharing
