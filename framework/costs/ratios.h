// What an attention costs beside the baseline, over experiments of different sizes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/costs/costs.h"

namespace attnlab {

/// The costs that a run recorded, and what time and memory depend on besides the run.
struct RecordedCosts {
  const Costs* costs;
  std::string conditions;  ///< cost_conditions()
};
/// Of the runs of one attention, by experiment.
using AttentionCosts = std::map<std::string, std::vector<RecordedCosts>>;

/// The kind of machine, threads, runs in a process, and what computes.
/// @param environment  as RunResult has it
std::string cost_conditions(const std::map<std::string, std::string>& environment);

/// What an attention costs beside the baseline: 1.05 is 5 % more. Empty where it cannot be said.
struct CostRatios {
  std::optional<double> time, memory, parameters, flops;
};

/// Geometric means over experiments of each cost's ratio to the baseline's. Time and memory count
/// in experiments whose runs were all made under the same conditions; numbers of parameters and
/// FLOPs count everywhere.
CostRatios cost_ratios(const AttentionCosts& attention, const AttentionCosts& baseline);

}  // namespace attnlab
