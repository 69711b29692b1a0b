// What attentions cost beside the baseline, over experiments of different sizes.
#pragma once

#include "framework/comparison/domains.h"

namespace attnlab {

/// Geometric means over experiments of each cost's ratio to the baseline's. Time and memory count
/// in experiments whose runs were all made on one kind of machine, with as many threads and as many
/// runs in a process; numbers of parameters and FLOPs count everywhere.
CostRatios cost_ratios(const std::vector<RunRecord>& runs, const std::string& attention,
                       const std::string& baseline);

}  // namespace attnlab
