// Evaluating a run: what its task measures on a split, and what it concludes in the end.
#pragma once

#include <atomic>

#include "framework/train/run.h"

namespace attnlab {

/// What the task measures on a split. The modules are in training mode afterwards, means aside.
/// @param weights  of whose modules
/// @throws Interrupted when `stop` is set meanwhile.
Metrics evaluate_split(BuiltRun& run, Split split, const std::atomic<bool>& stop,
                       Weights weights = Weights::last);

/// Adds what the task concludes from a finished run.
/// @param test  its metrics on the test split
Metrics concluded(BuiltRun& run, Metrics test, const std::atomic<bool>& stop);

}  // namespace attnlab
