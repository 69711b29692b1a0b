// Evaluating a run: every protocol of its task on a split, and what the task concludes in the end.
#pragma once

#include <atomic>

#include "framework/train/run.h"

namespace attnlab {

/// Every protocol of the task on a split; other protocols than "clean" prefix their metrics. The
/// model is in training mode afterwards. @throws Interrupted when `stop` is set meanwhile.
Metrics evaluate_split(BuiltRun& run, Split split, const std::atomic<bool>& stop);

/// Adds what the task concludes from a finished run.
/// @param test  its metrics on the test split
Metrics concluded(BuiltRun& run, Metrics test, const std::atomic<bool>& stop);

}  // namespace attnlab
