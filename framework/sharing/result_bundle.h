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
  /// runs/run-00001/..., with what runs keep of Python files; tables/..., plugins/...
  std::vector<ArchiveFile> files;
  std::vector<std::string> notes;  ///< what a reader must know
};

/// @param folder       of a suite, or of runs
/// @param checkpoints  put their parameters in, too
/// @throws ConfigError where a run is not finished, PluginError where a plugin that was installed
///         from a bundle is not the one that a run used, TrustError where that bundle was altered.
ResultFiles result_files(const std::string& folder, const Store& store, bool checkpoints);

/// Writes the files of a result below a folder, which appears whole: a kill leaves nothing in its
/// way. Where the same result was unpacked before, they are to be as they were then. The lock of
/// the folder's parent must be held.
/// @throws ConfigError where the folder holds another thing, or where a configuration in the file
///         names another file (`extends:`) or refers to something (`${...}`); DataError where one
///         of the files was altered or removed since, or one was added to a run; FileError.
void unpack_result(const Bundle& result, const std::string& folder);

}  // namespace attnlab::sharing
