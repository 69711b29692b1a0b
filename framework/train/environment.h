// What a run ran on: machine, libraries, plugins, data.
#pragma once

#include <string>
#include <vector>

#include "framework/base/metric.h"
#include "framework/train/run.h"

namespace attnlab {

/// JSON: processor, cores that this process may use, memory, operating system.
std::string machine_json();

/// What the task measures, its headline first.
std::vector<MetricInfo> task_metrics(const BuiltRun& run);
/// These and the host's own: what a run's numbers mean.
std::vector<MetricInfo> run_metrics(const BuiltRun& run);

/// JSON for environment.json. Cost: a forward pass of one example, whose FLOPs it counts.
std::string environment_json(const BuiltRun& run);

}  // namespace attnlab
