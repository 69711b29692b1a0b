// Which metric each experiment is compared by, and which way is better.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/runs/run_records.h"

namespace attnlab {

/// The word for each experiment's own metric.
inline constexpr const char* kHeadline = "headline";

/// By experiment. One without a finished run may have a metric without name or direction: nothing
/// of it is compared.
/// @param metric  a name, or `kHeadline`
/// @param better  "auto", "higher" or "lower"
/// @throws ConfigError for a metric that no run recorded, with near names, and where neither the
///         runs nor `better` say which way is better.
std::map<std::string, MetricInfo> chosen_metrics(const std::vector<RunRecord>& runs,
                                                 const MetricBook& book, const std::string& metric,
                                                 const std::string& better);

}  // namespace attnlab
