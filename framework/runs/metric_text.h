// Values of metrics as people read them; the unit decides.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/metric.h"

namespace attnlab {

/// "87.34 %" of a share, "412 MB" or "1.53 GB" of bytes, "1.234" of others.
std::string metric_text(const MetricInfo& metric, double value);
/// 412 MB, of a process or a file.
std::string memory_text(double bytes);
/// "accuracy 87.34 %  loss 1.25", in the order of `infos`, then by name.
std::string metrics_text(const std::map<std::string, double>& metrics,
                         const std::vector<MetricInfo>& infos);

/// Whether a metric is 1 or 0 of each run, so that its mean over runs is a share of them.
bool is_share_of_runs(const MetricInfo& metric);
/// Whether people read it in percent: values are parts of one.
bool is_share(const MetricInfo& metric);
/// 100 for a share, 1e-6 for what people read in millions (bytes, operations), else 1.
double metric_scale(const MetricInfo& metric);
/// "%", "MB", "M", else the unit itself: of the scaled metric. May be empty.
std::string_view metric_unit(const MetricInfo& metric);
/// "higher is better", "lower is better", "no direction".
std::string_view direction_text(const MetricInfo& metric);

}  // namespace attnlab
