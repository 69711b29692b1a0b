// A run as an entry of `evaluate:` has it: what the entry changes is built anew, the rest is the
// run's own, and the weights are the same.
#pragma once

#include <memory>
#include <string>

#include "framework/experiment/evaluations.h"
#include "framework/train/evaluation.h"

namespace attnlab {

/// Parameters and buffers by their names in checkpoints: "model.head.weight", "task.centres".
NamedTensors live_weights(const BuiltRun& run);
/// Their running means, "average.model.head.weight"; none without `train.average`.
NamedTensors average_weights(const BuiltRun& run);

/// Builds what the entry changes: its dataset where options of it differ; the model where those of
/// model or attention differ, or other weights are asked for; the task where anything differs.
/// Random numbers of the process stay as they were.
/// @throws as `build_run`, `check_data_fits`.
/// @param dataset  of `data_of_entry`; null: it is opened, and refused where it does not fit
BuiltRun overlaid(const BuiltRun& run, const EvaluationEntry& entry, Registry& registry,
                  std::shared_ptr<Dataset> dataset = nullptr);

/// The data of an entry: the run's own, or others, which are opened. Random numbers of the process
/// stay as they were. @throws as the registry.
std::shared_ptr<Dataset> data_of_entry(const BuiltRun& run, const EvaluationEntry& entry,
                                       Registry& registry);
/// @throws DataError for data on which the run's model means nothing: a text with another
///         vocabulary, other classes (unless the entry's task reads features, not answers), targets
///         in other units.
void check_data_fits(const BuiltRun& run, const EvaluationEntry& entry, const Dataset& dataset,
                     Registry& registry);

/// Copies weights into what the overlay has built anew. Weights that it lacks are left out.
/// @param weights  of `run`, with those under "average." where the entry asks for them
/// @param source   what they are called in messages
/// @throws DataError naming every tensor that is missing or has another shape; nothing changes
/// then.
void take_weights(const BuiltRun& overlay, const BuiltRun& run, const EvaluationEntry& entry,
                  const NamedTensors& weights, const std::string& source);

/// The task's metrics of the overlay's split. What the evaluation draws, and what the model draws
/// in it from the process's random numbers, depends on the run's seed and the entry's name alone;
/// these numbers stay as they were.
/// @param fitted  as of `evaluate_split`
/// @throws DataError where the dataset has no such split; Interrupted.
Metrics evaluate_overlay(BuiltRun& overlay, const EvaluationEntry& entry,
                         const std::atomic<bool>& stop, Fitted* fitted = nullptr);
/// The same example by example. @throws as `evaluate_overlay`.
void evaluate_overlay_examples(BuiltRun& overlay, const EvaluationEntry& entry,
                               const std::atomic<bool>& stop,
                               const std::function<void(const ExampleMetrics&)>& use,
                               Fitted* fitted = nullptr);

}  // namespace attnlab
