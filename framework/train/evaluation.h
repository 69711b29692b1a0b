// Evaluating a run: what its task measures on a split, and what it concludes in the end.
#pragma once

#include <atomic>

#include "framework/train/run.h"

namespace attnlab {

/// What the task measures on a split. Model and task are in training mode afterwards.
/// @throws Interrupted when `stop` is set meanwhile.
Metrics evaluate_split(BuiltRun& run, Split split, const std::atomic<bool>& stop);

/// Adds what the task concludes from a finished run.
/// @param test  its metrics on the test split
Metrics concluded(BuiltRun& run, Metrics test, const std::atomic<bool>& stop);

}  // namespace attnlab
