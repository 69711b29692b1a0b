// What an evaluation ran with: two more members of the file that framework/runs/evaluations.h
// describes.
//
//   "task": {"use": "image_attack", "eps": 0.0039, ...}   every option, defaults too
//   "seed": 0                                              the run's
#pragma once

#include "framework/runs/evaluations.h"

namespace attnlab {

struct EvaluationSetting {
  std::string task = "{}";  ///< JSON: the task with all its options
  std::int64_t seed = 0;
};

/// Writes the result with its setting. @throws FileError.
void write_evaluation(const std::string& run_folder, const EvaluationRecord& record,
                      const EvaluationSetting& setting);

}  // namespace attnlab
