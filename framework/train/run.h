// Trains and evaluates one run: a frozen configuration and a seed, in a folder.
#pragma once

#include <atomic>
#include <memory>

#include "framework/host/registry.h"
#include "framework/runs/progress.h"
#include "framework/runs/run_folder.h"

namespace attnlab {

class EachEvaluations;

/// The parts of one run, built and ready. Building is a function of configuration and seed.
struct BuiltRun {
  Experiment experiment;
  std::int64_t seed = 0;
  RandomStreams streams{0};
  at::Device device{at::kCPU};
  std::shared_ptr<Dataset> dataset;
  std::shared_ptr<Task> task;
  std::shared_ptr<Model> model;
  std::int64_t steps_per_epoch = 0;
  /// What is evaluated beside the run itself while it is trained; null: nothing.
  std::shared_ptr<EachEvaluations> each;
  std::int64_t together = 1;  ///< runs that are trained together with this one, itself included

  std::int64_t total_steps() const { return steps_per_epoch * experiment.train.epochs; }
  std::int64_t parameter_count() const;
};

/// What the run asks the dataset for: the plan of one epoch of training.
PlanRequest plan_request(const BuiltRun& run, std::uint64_t epoch);

/// Opens the data and builds task and model, on the configuration's device, with its threads.
/// @param dataset  of the same `dataset` section and seed, opened before; null: it is opened
/// @throws ConfigError, DataError (DataMissingError when the data are not on this machine),
///         PluginError.
BuiltRun build_run(const Experiment& experiment, std::int64_t seed, Registry& registry,
                   std::shared_ptr<Dataset> dataset = nullptr);

/// Runs to the end of training, from the checkpoint where there is one. Keeps status.json,
/// metrics.jsonl and checkpoint.safetensors of the folder, and best.safetensors where
/// `train.protocol` chooses an epoch.
/// @param stop  set from a signal: the run writes a checkpoint and returns as interrupted.
/// @returns the status that was written: done, diverged or interrupted.
/// @throws what stops a run otherwise (full disk, damaged data); the status then says failed.
RunStatus train_run(BuiltRun& run, const RunFolder& folder, ProgressSink& progress,
                    const std::atomic<bool>& stop);

/// Loads the parameters of a folder's checkpoint into the model: of the best epoch where
/// `train.protocol` chooses one, else of the last.
/// @throws DataError when there is none, or it belongs to another configuration.
void load_model(BuiltRun& run, const RunFolder& folder);

/// Every protocol of the task on the test split, and what the task concludes from it; other
/// protocols than "clean" prefix their metrics ("fog/accuracy"). @throws Interrupted when `stop` is
/// set meanwhile.
Metrics evaluate_test(BuiltRun& run, const std::atomic<bool>& stop);

/// Thrown out of an evaluation that was asked to stop.
class Interrupted : public Error {
 public:
  Interrupted() : Error("interrupted") {}
};

}  // namespace attnlab
