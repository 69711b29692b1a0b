// What is left to evaluate of a finished run, seen from its folder alone.
#pragma once

#include <string>
#include <vector>

#include "framework/experiment/evaluations.h"
#include "framework/runs/evaluations.h"
#include "framework/runs/run_folder.h"

namespace attnlab {

/// The file of the weights that count: those of the best epoch where `train.protocol` chooses one
/// (once there is one), else of the last. It may have been deleted.
/// @throws DataError where the run's status cannot be read.
std::string weights_file(const Experiment& experiment, const RunFolder& folder);

/// Entries of an experiment that a finished run has no result of. Whether the data of another
/// dataset changed since is not seen: that takes opening them (attnlab eval does).
/// @param experiment    whose entries count; of the run's configuration otherwise
/// @param failed_again  entries that failed are among them
/// @throws ConfigError, FileError.
std::vector<std::string> entries_left(const Experiment& experiment, const RunFolder& folder,
                                      const Catalogue& catalogue, bool failed_again);

}  // namespace attnlab
