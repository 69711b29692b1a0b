// What one run left behind: status, environment, and the evaluations that were added later.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "framework/costs/costs.h"
#include "framework/runs/absence.h"
#include "framework/runs/evaluations.h"
#include "framework/runs/metric_infos.h"
#include "framework/runs/run_folder.h"

namespace attnlab {

struct RunResult {
  /// Its metrics hold those of evaluations, too: "fog/accuracy". Those of a run that was trained
  /// together with others lack the memory of their common process.
  RunStatus status;
  /// What is known of the metrics, those of evaluations last; empty of a run by an earlier attnlab.
  std::vector<MetricInfo> infos;
  /// From environment.json: "data.fingerprint", "model.plugin" (hash of the file), "machine.cpu"...
  std::map<std::string, std::string> environment;
  Costs costs;
  std::int64_t together = 1;  ///< runs that one process trained together, itself included
  std::vector<EvaluationRecord> evaluations;
  std::vector<MetricInfo> evaluation_headlines;  ///< one per entry that has any: "fog/accuracy"
  /// Where a stored result came from (stored_run.h); empty for a run that was made here.
  std::string stored;
  std::vector<std::string> notes;    ///< what readers of its numbers must know
  std::vector<std::string> damaged;  ///< evaluations that cannot be read: "FILE: why"

  bool done() const { return status.state == RunState::done; }
  /// Metrics of a run that is done whose values are not finite.
  std::vector<std::string> not_finite() const;
  /// A finite value of a run that is done, or why there is none.
  std::optional<double> value(const std::string& metric) const;
  Gap gap(const std::string& metric) const;
  /// Metrics of evaluations that are not the headline of their entry: tables leave them out.
  std::set<std::string> details() const;
};

/// @throws DataError or FileError naming the file that cannot be read; a damaged evaluation is a
///         note.
RunResult read_result(const std::string& folder);

}  // namespace attnlab
