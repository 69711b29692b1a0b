// Results in one file: configurations, locks, metrics and tables of runs, and the bundles of the
// plugins that they used.
#pragma once

#include <string>
#include <vector>

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

}  // namespace attnlab::sharing
