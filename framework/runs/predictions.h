// What an entry of `evaluate:` with `predictions: true` keeps of each example, so that two models
// can be compared on the same examples.
//
//   RUN/evaluations/ENTRY-HASH.safetensors   beside the result, in the format of safetensors
//     example          I64 [N]   index in the dataset's split, in the order of its plan
//     terms            F64 [N]   how much each counts in a mean: Task::weight
//     score.accuracy   F64 [N]   a metric of that example by itself
//     __metadata__     entry, split, data (the data's fingerprint)
//
// Metrics that some example does not have (an average precision without an object) are left out.
// Source of the format: https://github.com/huggingface/safetensors.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "framework/runs/evaluations.h"

namespace attnlab {

/// Names of the file's tensors.
inline constexpr const char* kPredictedExamples = "example";
inline constexpr const char* kPredictedTerms = "terms";
inline constexpr const char* kPredictedScore = "score.";  ///< before a metric's name

struct Predictions {
  std::vector<std::int64_t> examples;
  std::vector<double> terms;
  std::map<std::string, std::vector<double>> scores;  ///< by metric; as long as `examples`
  std::string data;                                   ///< fingerprint of the data
};

/// "evaluations/fog-0123456789abcdef.safetensors". @throws as `evaluation_file`.
std::string predictions_file(const std::string& entry, const std::string& hash);

/// Reads the predictions that a result names.
/// @throws ConfigError where it names none; FileError for a file that is missing or longer than
///         `kLargestRecord`; DataError for one that is not what the result was written with.
Predictions read_predictions(const std::string& run_folder, const EvaluationRecord& record);

}  // namespace attnlab
