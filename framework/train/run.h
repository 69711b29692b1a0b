// Trains and evaluates one run: a frozen configuration and a seed, in a folder.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "framework/host/registry.h"
#include "framework/nn/kernels/precision.h"
#include "framework/runs/progress.h"
#include "framework/runs/run_folder.h"
#include "framework/train/world.h"

namespace attnlab {

class EachEvaluations;
struct TrainingParts;

/// The parts of one run, built and ready. Building is a function of configuration and seed.
struct BuiltRun {
  Experiment experiment;
  std::int64_t seed = 0;
  RandomStreams streams{0};
  at::Device device{at::kCPU};
  Precision products = Precision::float32;  ///< what the device has of train.precision
  std::shared_ptr<Dataset> dataset;
  std::shared_ptr<Task> task;
  std::shared_ptr<Model> model;
  /// Of the same build, for the running means of both, in evaluation mode; null without
  /// `train.average`.
  std::shared_ptr<Task> average_task;
  std::shared_ptr<Model> average_model;
  std::int64_t steps_per_epoch = 0;
  /// What is evaluated beside the run itself while it is trained; null: nothing.
  std::shared_ptr<EachEvaluations> each;
  /// Of `prepare_training`, until a training takes them; null: it makes them itself.
  std::shared_ptr<TrainingParts> parts;
  std::shared_ptr<World> world = World::alone();  ///< the processes that carry it out
  std::int64_t together = 1;  ///< runs that are trained together with this one, itself included
  std::string initial_file;   ///< that `init:` took parameters from; else empty
  /// With `init:`: tensors of the file that were not used, and parameters that kept random numbers.
  std::vector<std::string> initial_unused, initial_random;
  /// What has changed since the run began and is accepted (`--accept-changes`), for its records.
  std::vector<std::string> accepted;

  /// `train.steps`, or as many as `train.epochs` epochs have.
  std::int64_t total_steps() const;
  /// Epochs, the last one cut short by `train.steps` included.
  std::int64_t epochs() const;
  /// Steps of one epoch: the last one may have fewer.
  std::int64_t steps_of_epoch(std::int64_t epoch) const;
  /// Numbers in the parameters of model and task.
  std::int64_t parameter_count() const;
};

/// What the run asks the dataset for: the plan of one epoch of training.
PlanRequest training_request(const BuiltRun& run, std::uint64_t epoch);
/// The same of an evaluation: each example once, in order.
PlanRequest evaluation_request(const BuiltRun& run, Split split);

/// The batches of an epoch of training, as many as it has steps.
/// @throws DataError where the dataset plans another number of batches than for the first epoch.
EpochPlan training_plan(const BuiltRun& run, std::uint64_t epoch);

/// What is to be said where the device lacks the precision that is asked for; else empty.
std::string note_on_products(const BuiltRun& run);

/// Opens the data and builds task and model, on the configuration's device, with its threads.
/// @param dataset  of the same `dataset` section and seed, opened before; null: it is opened
/// @throws ConfigError, DataError (DataMissingError when the data are not on this machine),
///         PluginError.
BuiltRun build_run(const Experiment& experiment, std::int64_t seed, Registry& registry,
                   std::shared_ptr<Dataset> dataset = nullptr);

/// Runs to the end of training, from the checkpoint where there is one. Keeps status.json,
/// metrics.jsonl and checkpoint.safetensors of the folder, and best.safetensors where
/// `train.protocol` chooses an epoch; of several processes (`BuiltRun::world`) the first one does.
/// @param stop  set from a signal: the run writes a checkpoint and returns as interrupted. One
///              process's signal stops all.
/// @returns the status that was written: done, diverged or interrupted.
/// @throws what stops a run otherwise (full disk, damaged data); the status then says failed.
///         LostProcess where another process is gone; the status then says who, and interrupted,
///         or failed where that one had an error of its own.
RunStatus train_run(BuiltRun& run, const RunFolder& folder, ProgressSink& progress,
                    const std::atomic<bool>& stop);

/// Does what `train_run` does before the first step, and writes nothing: reads the checkpoint where
/// there is one, loads the first batch, and asks the attention layers what a trace asks them. The
/// run is of no use afterwards. @throws as `train_run`.
void rehearse_run(BuiltRun& run, const RunFolder& folder);

/// Loads the parameters of a folder's checkpoint into model and task: of the best epoch where
/// `train.protocol` chooses one, else of the last.
/// @throws DataError when there is none, it lacks a tensor, or belongs to another configuration.
void load_model(BuiltRun& run, const RunFolder& folder);

/// What the task measures on the test split, and what it concludes from it. @throws Interrupted
/// when `stop` is set meanwhile.
Metrics evaluate_test(BuiltRun& run, const std::atomic<bool>& stop);

}  // namespace attnlab
