// Evaluating a run: what its task measures on a split, and what it concludes in the end.
#pragma once

#include <atomic>
#include <functional>

#include "framework/train/run.h"

namespace attnlab {

/// What the task measures on a split. Model and task are in training mode afterwards.
/// @throws Interrupted when `stop` is set meanwhile.
Metrics evaluate_split(BuiltRun& run, Split split, const std::atomic<bool>& stop);

/// What the task measures of one example, asked by itself: in no batch with others, behind none.
struct ExampleMetrics {
  std::int64_t example = 0;  ///< its index in the dataset's split
  double terms = 0;          ///< `Task::weight`; of text: the tokens that were predicted
  Metrics metrics;           ///< those that have a value for one example
};

/// Evaluates a split example by example, in the order of its plan. Those without a term (windows
/// that only fill up a row) are left out. Cost: a forward pass each.
/// @throws Interrupted when `stop` is set meanwhile.
void evaluate_examples(BuiltRun& run, Split split, const std::atomic<bool>& stop,
                       const std::function<void(const ExampleMetrics&)>& use);

/// Adds what the task concludes from a finished run.
/// @param test  its metrics on the test split
Metrics concluded(BuiltRun& run, Metrics test, const std::atomic<bool>& stop);

}  // namespace attnlab
