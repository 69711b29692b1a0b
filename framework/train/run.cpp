#include "framework/train/run.h"

#include <ATen/Context.h>

#include <filesystem>

#include "framework/host/given_fields.h"
#include "framework/runs/missing_evaluations.h"
#include "framework/tensor/device.h"
#include "framework/train/checkpoint.h"
#include "framework/train/entries.h"
#include "framework/train/evaluation.h"
#include "framework/train/lockstep.h"

namespace attnlab {
namespace {

/// The dataset has the splits that the protocol needs.
void check_protocol(const BuiltRun& run) {
  const std::string& protocol = run.experiment.train.protocol;
  const std::int64_t held_out = run.dataset->size(Split::validation);
  if (protocol == "last" || (protocol == "sound") == (held_out > 0)) return;
  const Place& place = run.experiment.resolved.at("train").at("protocol").place();
  const std::string& name = run.experiment.dataset.name;
  if (protocol == "sound") {
    throw ConfigError(place,
                      "train.protocol: sound chooses the epoch by a validation split, and dataset "
                      "'" +
                          name +
                          "' has none; hold training examples out by its options "
                          "(attnlab describe dataset/" +
                          name + "), or choose last");
  }
  throw ConfigError(place, "train.protocol: published chooses the epoch by the test split, but " +
                               std::to_string(held_out) + " training examples of dataset '" + name +
                               "' are held out for validation; hold none out, or choose sound");
}

}  // namespace

std::int64_t BuiltRun::parameter_count() const {
  std::int64_t count = 0;
  for (const Tensor& parameter : model->parameters()) count += parameter.numel();
  return count;
}

PlanRequest plan_request(const BuiltRun& run, std::uint64_t epoch) {
  PlanRequest request;
  request.training = true;
  request.batch_size = run.experiment.train.batch_size;
  request.drop_last = run.experiment.train.drop_last;
  request.epoch = epoch;
  request.streams = run.streams;
  return request;
}

BuiltRun build_run(const Experiment& experiment, std::int64_t seed, Registry& registry,
                   std::shared_ptr<Dataset> dataset) {
  BuiltRun run;
  run.experiment = experiment;
  run.seed = seed;
  run.streams = RandomStreams(static_cast<std::uint64_t>(seed));
  run.device = device_of(experiment.train.device);
  use_threads(experiment.train.threads);
  run.dataset =
      dataset != nullptr ? std::move(dataset) : registry.dataset(experiment.dataset, {run.streams});
  run.steps_per_epoch = run.dataset->plan(plan_request(run, 0)).batches();
  check_protocol(run);
  if (run.steps_per_epoch == 0) {
    const Node& batch = experiment.resolved.at("train").at("batch_size");
    throw ConfigError(batch.place(), "train.batch_size: " + batch.text() +
                                         " is more than the training split has (" +
                                         std::to_string(run.dataset->size(Split::train)) + ")");
  }
  at::manual_seed(run.streams.key("initialisation"));
  run.model = registry.model(
      experiment.model,
      {run.dataset->info(), registry.attention_builder(experiment.attention, run.streams)});
  run.model->to(run.device);
  check_given(experiment, run.dataset->info(), run.model->outputs(), registry.catalogue());
  at::manual_seed(run.streams.key("task"));
  run.task = registry.task(experiment.task, {run.dataset->info(), run.model->outputs()});
  run.task->to(run.device);
  run.each = each_evaluations(run, registry);
  return run;
}

RunStatus train_run(BuiltRun& run, const RunFolder& folder, ProgressSink& progress,
                    const std::atomic<bool>& stop) {
  try {
    Sitting sitting(run, folder, progress, stop);
    sitting.begin();
    RunGradients gradients(run);
    train_in_step({&sitting}, gradients, stop);
    return sitting.status();
  } catch (const std::exception& error) {
    RunStatus status;
    try {
      status = folder.status();
      status.state = RunState::failed;
      status.reason = error.what();
      folder.write_status(status);
    } catch (const Error&) {  // a full disk has no room for a status either: the first error counts
    }
    throw;
  }
}

void load_model(BuiltRun& run, const RunFolder& folder) {
  const std::string path = folder.file("checkpoint.safetensors");
  const std::string best = folder.file("best.safetensors");
  if (run.experiment.train.protocol != "last" && std::filesystem::exists(best)) {
    return read_model(best, *run.model, run.experiment.hash());
  }
  if (!std::filesystem::exists(path)) {
    throw DataError(path + ": there is no checkpoint yet; attnlab run " + folder.path() +
                    " --resume makes one");
  }
  read_checkpoint(path, *run.model, nullptr, run.experiment.hash());
}

Metrics evaluate_test(BuiltRun& run, const std::atomic<bool>& stop) {
  return concluded(run, evaluate_split(run, Split::test, stop), stop);
}

}  // namespace attnlab
