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

/// The one of an entry, or of a group's mean; null: there is none.
const EvaluationRecord* result_of(const std::vector<EvaluationRecord>& records,
                                  const std::string& entry);

/// What keeps a result from being one of an entry: "its settings changed"; empty where split and
/// settings agree, and `weights` where the result says them. Data and plugins, and which weights a
/// file holds, are not looked at.
std::string settings_change(const EvaluationRecord& record, const EvaluationEntry& entry);

/// EvaluationRecord::hash of the mean over points. @param points  in the order of their entries
std::string mean_hash(const std::vector<EvaluationRecord>& points);
/// EvaluationRecord::set of the mean, which says of what it is: {"over": ["swap/0.01", ...]}.
std::string mean_set(const std::vector<EvaluationRecord>& points);

/// Groups of which every point has a result, and whose mean is missing or of other results: a point
/// came or went since, or the process ended before the mean was due. (One with a point that failed
/// is not among them: its mean is due when that is evaluated again, which may end the process.)
std::vector<std::string> means_left(const std::vector<EvaluationEntry>& entries,
                                    const std::vector<EvaluationRecord>& records);

/// Entries of an experiment that a finished run has no result of, and groups of them whose mean is
/// not that of their points. Whether the data of another dataset changed since is not seen: that
/// takes opening them (attnlab eval does). Where the weights were deleted, results count by their
/// settings.
/// @param experiment    whose entries count; of the run's configuration otherwise
/// @param failed_again  entries that failed are among them
/// @throws ConfigError, FileError.
std::vector<std::string> entries_left(const Experiment& experiment, const RunFolder& folder,
                                      const Catalogue& catalogue, bool failed_again);

}  // namespace attnlab
