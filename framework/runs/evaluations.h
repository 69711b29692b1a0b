// Evaluations of a finished run: its composition with some values changed, asked and not trained.
//
//   RUN/evaluations/ENTRY-HASH.json
//     {"entry": "fog", "hash": "16 hex digits", "split": "test", "state": "done" | "failed",
//      "reason": "", "metrics": {"accuracy": 0.5}, "infos": [...], "set": {...}, "seconds": 1.5,
//      "weights": "last" | "average", "changes": ["the file of attention 'quest' changed"],
//      "written": 1700000000000000, "predictions": "16 hex digits"}
//   RUN/evaluations/ENTRY-HASH.safetensors   of an entry with `predictions`: predictions.h
//   RUN/evaluations/ENTRY-HASH.fitted.safetensors   a probe: framework/train/fitted_file.h
//
// Each result stands in a file of its own, so that they resume and are added one by one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "framework/base/metric.h"

namespace attnlab {

/// What one entry of `evaluate:` gave.
struct EvaluationRecord {
  std::string entry;                      ///< "fog"
  std::string hash;                       ///< of what it changes: 16 hexadecimal digits
  std::string split;                      ///< "test"
  bool done = false;                      ///< false: failed
  std::string reason;                     ///< of a failure
  std::map<std::string, double> metrics;  ///< by their own names: "accuracy"
  std::vector<MetricInfo> infos;          ///< of these, the headline first
  std::string set = "{}";                 ///< JSON: what it changes
  /// What had changed since the run began, for people: "the file of attention 'quest' changed".
  std::vector<std::string> changes = {};
  double seconds = 0;
  /// When, in microseconds since 1970: of the results of an entry the last one counts. 0: as it is
  /// written. Read from a file without it (of an earlier version), the file's own time.
  std::int64_t written = 0;
  /// "last", or "average" for the means that train.average keeps; empty: of an earlier version,
  /// which did not say.
  std::string weights{};
  std::string predictions{};  ///< fingerprint of the file of its predictions; empty: there is none
  std::string file{};         ///< the name of that which it was read from, in evaluations/
};

/// "evaluations/fog-0123456789abcdef.json"; "swap~0.01-..." of the entry "swap/0.01".
/// @throws ConfigError for an entry that cannot be part of a file's name.
std::string evaluation_file(const std::string& entry, const std::string& hash);

/// Writes the result into the run's folder, in place of an older one of the same entry and hash.
/// @throws FileError.
void write_evaluation(const std::string& run_folder, const EvaluationRecord& record);

/// EvaluationRecord::written of a result's file; of one that is damaged or does not say, its time.
std::int64_t written_of(const std::string& path);

/// EvaluationRecord::written of a result that comes now, behind an earlier one even where the clock
/// went back since.
std::int64_t written_after(std::int64_t earlier);

/// All that a run's folder holds.
struct Evaluations {
  std::vector<EvaluationRecord> records;  ///< one per entry, the newest; by name
  std::vector<std::string> replaced;      ///< entries with older results of another hash
  std::vector<std::string> damaged;       ///< "FILE: why" of those that could not be read
};

/// A damaged file is named and left out: the run itself stays readable.
Evaluations read_evaluations(const std::string& run_folder);

}  // namespace attnlab
