// What a run's own configuration asks of it beside its training.
#pragma once

#include <string>
#include <vector>

#include "framework/experiment/evaluations.h"
#include "framework/runs/run_records.h"

namespace attnlab::sharing {

/// The entries of a run's `evaluate:` that get a result of their own (`clean` is the run itself):
/// of a list of values its mean, not its points.
inline std::vector<std::string> configured_entries(const RunRecord& run) {
  std::vector<std::string> names;
  const Node* const evaluate = run.config.find("evaluate");
  if (evaluate == nullptr) return names;
  for (const auto& [name, entry] : evaluate->entries()) {
    if (name != kClean) names.push_back(name);
  }
  return names;
}

}  // namespace attnlab::sharing
