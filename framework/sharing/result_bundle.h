// Results in one file: configurations, locks, metrics and tables of runs, and the bundles of the
// plugins that they used.
#pragma once

#include <string>
#include <vector>

#include "framework/runs/run_records.h"
#include "framework/sharing/bundle.h"
#include "framework/sharing/store.h"

namespace attnlab::sharing {

/// The files of a result.
struct ResultFiles {
  std::vector<ArchiveFile> files;  ///< runs/..., tables/..., plugins/...
  std::vector<std::string> notes;  ///< what a reader must know
};

/// @param folder       of a suite, or of runs
/// @param checkpoints  put their parameters in, too
/// @throws ConfigError where a run is not finished, PluginError where a plugin that was installed
///         from a bundle is not the one that a run used.
ResultFiles result_files(const std::string& folder, const Store& store, bool checkpoints);

/// One metric of one attention in one experiment, there and here.
struct Reproduced {
  std::string experiment, attention, metric;
  std::vector<double> there, here;  ///< by seed, those that both have
  std::string verdict;              ///< "identical", "agrees", "DIFFERS", "no value"
  std::string why;                  ///< in words
  bool agrees() const { return verdict == "identical" || verdict == "agrees"; }
};

/// Joins runs by experiment, attention and seed, and judges each headline metric: identical where
/// every seed gives the same number; agrees where the means lie within twice the standard error
/// that the seeds' spread gives; for a single seed, within 1e-6 of each other.
std::vector<Reproduced> compare_results(const std::vector<RunRecord>& there,
                                        const std::vector<RunRecord>& here);

/// A table for a terminal.
std::string reproduction_text(const std::vector<Reproduced>& all);

}  // namespace attnlab::sharing
