// Faults of evaluations that are known before a run is trained.
#pragma once

#include "framework/host/registry.h"
#include "framework/train/run.h"

namespace attnlab {

/// Builds the tasks of those entries of `evaluate:` that change the task alone, and drops them:
/// what a task finds wrong with its options or the data is told now, and not after hours. Random
/// numbers of the process stay as they were.
/// @throws as `build_run`.
void check_tasks(const BuiltRun& run, Registry& registry);

}  // namespace attnlab
