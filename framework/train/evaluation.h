// Evaluating a run: what its task measures on a split, and what it concludes in the end.
#pragma once

#include <atomic>
#include <functional>

#include "framework/train/run.h"

namespace attnlab {

/// What the task measures on a split. Model and task are in training mode afterwards. Several
/// processes of a run share the forward passes of tasks that leave them to the host
/// (`Evaluation::passes`), and all measure the same; what fails in one of them ends it in all.
/// @param fitted  what was fitted before to the same weights and data, and is now; null: nothing
/// @throws Interrupted when `stop` is set meanwhile; AgreedError.
Metrics evaluate_split(BuiltRun& run, Split split, const std::atomic<bool>& stop,
                       Fitted* fitted = nullptr);

/// What the task measures of one example, asked by itself: in no batch with others, behind none.
struct ExampleMetrics {
  std::int64_t example = 0;  ///< its index in the dataset's split
  double terms = 0;          ///< `Task::weight`; of text: the tokens that were predicted
  Metrics metrics;           ///< those that have a value for one example
};

/// Evaluates a split example by example, in the order of its plan. Those without a term (windows
/// that only fill up a row) are left out. Cost: a forward pass each.
/// @param fitted  as of `evaluate_split`; what is fitted serves all examples
/// @throws Interrupted when `stop` is set meanwhile.
void evaluate_examples(BuiltRun& run, Split split, const std::atomic<bool>& stop,
                       const std::function<void(const ExampleMetrics&)>& use,
                       Fitted* fitted = nullptr);

/// Adds what the task concludes from a finished run.
/// @param test  its metrics on the test split
Metrics concluded(BuiltRun& run, Metrics test, const std::atomic<bool>& stop);

}  // namespace attnlab
