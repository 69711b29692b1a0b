#include "framework/train/run.h"

#include <ATen/Context.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "framework/base/error_text.h"
#include "framework/host/given_fields.h"
#include "framework/host/working_folder.h"
#include "framework/runs/missing_evaluations.h"
#include "framework/tensor/device.h"
#include "framework/train/checkpoint.h"
#include "framework/train/entries.h"
#include "framework/train/evaluation.h"
#include "framework/train/lockstep.h"

namespace attnlab {
namespace {

/// What the device has of what is asked for.
Precision products_of(const TrainOptions& train, at::Device device) {
  const auto asked = [&](Precision precision) { return train.precision == name_of(precision); };
  if (asked(Precision::tf32) && !device.is_cpu()) return Precision::tf32;
  if (asked(Precision::float16)) return Precision::float16;
  const bool narrow = asked(Precision::bfloat16) && has_bfloat16_products(device);
  return narrow ? Precision::bfloat16 : Precision::float32;
}

/// The dataset has the splits that the protocol needs.
void check_protocol(const BuiltRun& run) {
  const std::string& protocol = run.experiment.train.protocol;
  const std::int64_t held_out = run.dataset->size(Split::validation);
  if (protocol == "last" || (protocol == "sound") == (held_out > 0)) return;
  const Place& place = run.experiment.resolved.at("train").at("protocol").place();
  const std::string& name = run.experiment.dataset.name;
  if (protocol == "sound") {
    throw ConfigError(place,
                      fmt::format("train.protocol: sound chooses the epoch by a validation split, "
                                  "and dataset '{0}' has none; hold training examples out by its "
                                  "options (attnlab describe dataset/{0}), or choose last",
                                  name));
  }
  throw ConfigError(
      place,
      fmt::format(
          "train.protocol: published chooses the epoch by the test split, but {} training examples "
          "of dataset '{}' are held out for validation; hold none out, or choose sound",
          held_out, name));
}

/// An epoch's plan holds every copy of an example: room is asked for none that is endless.
void check_repeats(const BuiltRun& run) {
  constexpr std::int64_t kMost = 1'000'000'000;
  const std::int64_t repeat = run.experiment.train.batching.repeat;
  const std::int64_t examples = run.dataset->size(Split::train);
  if (repeat == 1 || examples <= kMost / repeat) return;
  const Node& batching = run.experiment.resolved.at("train").at("batching");
  throw ConfigError(batching.at("repeat").place(),
                    fmt::format("train.batching.repeat: {} times {} training examples are more "
                                "than {}, the most that an epoch may hold; repeat them less often",
                                repeat, examples, kMost));
}

/// What no memory has room for is refused before a folder is made, not by the first evaluation.
void check_evaluation_plans(const BuiltRun& run) {
  for (const Split split : {Split::validation, Split::test}) {
    if (run.dataset->size(split) > 0) run.dataset->plan(evaluation_request(run, split));
  }
}

/// Model and task with their first values: the same ones each time.
void build_modules(const BuiltRun& run, Registry& registry, std::shared_ptr<Model>& model,
                   std::shared_ptr<Task>& task) {
  const Experiment& experiment = run.experiment;
  at::manual_seed(run.streams.key("initialisation"));
  model = registry.model(
      experiment.model,
      {run.dataset->info(), registry.attention_builder(experiment.attention, run.streams)});
  model->to(run.device);
  check_given(experiment, run.dataset->info(), model->outputs(), registry.catalogue());
  at::manual_seed(run.streams.key("task"));
  task = registry.task(experiment.task, {run.dataset->info(), model->outputs(), run.total_steps(),
                                         run.steps_per_epoch, experiment.train.average.decay > 0});
  task->to(run.device);
}

/// For modules that are looked at and not trained.
void rest(torch::nn::Module& module) {
  module.eval();
  for (Tensor& parameter : module.parameters()) parameter.set_requires_grad(false);
}

/// Tells the other processes, and notes it in the folder.
void fail(World& world, const RunFolder& folder, const std::exception& error) {
  world.leave(text_of(error));
  if (!world.first()) return;
  try {
    RunStatus status = folder.status();
    status.state = RunState::failed;
    status.reason = text_of(error);
    folder.write_status(status);
  } catch (const Error&) {  // a full disk has no room for a status either: the first error counts
  }
}

/// Ends a training whose other processes are gone. @param stop  asked of this process: then they
/// were asked, too, and did not wait for the end of what they did
/// @throws LostProcess.
void go_on_without(Training& training, World& world, const std::atomic<bool>& stop,
                   const WorldError& error) {
  if (stop) {
    return training.go_on_without(RunState::interrupted,
                                  fmt::format("at step {}", training.step()));
  }
  const Missing missing = world.missing();
  const std::string who = fmt::format("at step {}: {}", training.step(), missing.text);
  training.go_on_without(missing.failed ? RunState::failed : RunState::interrupted, who);
  throw LostProcess(
      fmt::format("{}; {}; the same command with --resume goes on, with as many "
                  "processes or another count that divides train.parts",
                  who, error.what()));
}

}  // namespace

std::int64_t BuiltRun::total_steps() const {
  const TrainOptions& train = experiment.train;
  return train.steps > 0 ? train.steps : steps_per_epoch * train.epochs;
}

std::int64_t BuiltRun::epochs() const {
  return (total_steps() + steps_per_epoch - 1) / steps_per_epoch;
}

std::int64_t BuiltRun::steps_of_epoch(std::int64_t epoch) const {
  return std::min(steps_per_epoch, total_steps() - epoch * steps_per_epoch);
}

std::int64_t BuiltRun::parameter_count() const {
  std::int64_t count = 0;
  for (const Tensor& parameter : model->parameters()) count += parameter.numel();
  for (const Tensor& parameter : task->parameters()) count += parameter.numel();
  return count;
}

PlanRequest training_request(const BuiltRun& run, std::uint64_t epoch) {
  const TrainOptions& train = run.experiment.train;
  return {.split = Split::train,
          .training = true,
          .batch_size = train.batch_size,
          .drop_last = train.drop_last,
          .repeat = train.batching.repeat,
          .budget = train.batching.budget,
          .epoch = epoch,
          .streams = run.streams};
}

PlanRequest evaluation_request(const BuiltRun& run, Split split) {
  return {.split = split,
          .batch_size = run.experiment.train.eval_batch_size,
          .budget = run.experiment.train.batching.budget,
          .streams = run.streams};
}

EpochPlan training_plan(const BuiltRun& run, std::uint64_t epoch) {
  EpochPlan plan = run.dataset->plan(training_request(run, epoch));
  if (plan.batches() != run.steps_per_epoch) {
    throw DataError(
        fmt::format("dataset '{}' plans {} batches for epoch {} and {} for epoch 0; its plan() "
                    "must give equally many in every epoch",
                    run.experiment.dataset.name, plan.batches(), epoch, run.steps_per_epoch));
  }
  plan.ends.resize(std::size_t(run.steps_of_epoch(std::int64_t(epoch))));
  return plan;
}

std::string note_on_products(const BuiltRun& run) {
  const std::string& asked = run.experiment.train.precision;
  if (asked == name_of(run.products)) return "";
  return fmt::format("train.precision: {}: this processor has no such products; computed in {}",
                     asked, name_of(run.products));
}

BuiltRun build_run(const Experiment& experiment, std::int64_t seed, Registry& registry,
                   std::shared_ptr<Dataset> dataset) {
  const WorkingFolder home;
  BuiltRun run;
  run.experiment = experiment;
  run.seed = seed;
  run.streams = RandomStreams(static_cast<std::uint64_t>(seed));
  run.device = device_of(experiment.train.device);
  use_threads(experiment.train.threads);
  run.products = products_of(experiment.train, run.device);
  use_product_precision(run.products);
  if (!run.device.is_cpu()) use_tf32(run.products == Precision::tf32);
  use_deterministic_kernels(experiment.train.deterministic && !run.device.is_cpu());
  run.dataset =
      dataset != nullptr ? std::move(dataset) : registry.dataset(experiment.dataset, {run.streams});
  check_repeats(run);
  run.steps_per_epoch = run.dataset->plan(training_request(run, 0)).batches();
  check_evaluation_plans(run);
  check_protocol(run);
  if (run.steps_per_epoch == 0) {
    const Node& batch = experiment.resolved.at("train").at("batch_size");
    throw ConfigError(batch.place(),
                      fmt::format("train.batch_size: {} is more than the training split has ({})",
                                  batch.text(), run.dataset->size(Split::train)));
  }
  build_modules(run, registry, run.model, run.task);
  if (experiment.train.average.decay > 0) {
    build_modules(run, registry, run.average_model, run.average_task);
    rest(*run.average_model);
    rest(*run.average_task);
  }
  run.each = each_evaluations(run, registry);
  home.check("opening the data and building the model");
  return run;
}

RunStatus train_run(BuiltRun& run, const RunFolder& folder, ProgressSink& progress,
                    const std::atomic<bool>& stop) {
  World& world = *run.world;
  world.heed(stop);
  try {
    const WorkingFolder home;  // a failure is noted where the run is
    const std::atomic<bool>& all_stop = world.size() > 1 ? world.stop() : stop;
    Training training(run, folder, progress, all_stop);
    try {
      training.begin();
      RunGradients gradients(run, training);
      train_in_step({&training}, gradients, all_stop);
    } catch (const WorldError& error) {
      go_on_without(training, world, stop, error);
    }
    return training.status();
  } catch (const WorldError&) {  // noted, where there was a step
    throw;
  } catch (const std::exception& error) {
    fail(world, folder, error);
    throw;
  } catch (...) {  // of a plugin
    const Error error(kNoException);
    fail(world, folder, error);
    throw error;
  }
}

void rehearse_run(BuiltRun& run, const RunFolder& folder) {
  const WorkingFolder home;
  const auto silent = make_progress(ProgressMode::none);
  const std::atomic<bool> stop{false};
  try {
    Training(run, folder, *silent, stop).rehearse();
  } catch (const std::exception&) {
    throw;
  } catch (...) {  // of a plugin
    throw Error(kNoException);
  }
}

void load_model(BuiltRun& run, const RunFolder& folder) {
  const std::string path = weights_file(run.experiment, folder);
  if (!std::filesystem::exists(path)) {
    if (folder.status().state == RunState::done) {
      throw DataError(
          fmt::format("{}: the model of this result is not there any more; put the file back, or "
                      "remove {} and train again",
                      path, folder.path()));
    }
    throw DataError(fmt::format("{}: there is no checkpoint yet; attnlab run {} --resume makes one",
                                path, folder.path()));
  }
  const SavedModules modules = {{"model.", run.model.get()}, {"task.", run.task.get()}};
  read_weights(path, modules, {run.experiment.hash(), run.seed});
}

Metrics evaluate_test(BuiltRun& run, const std::atomic<bool>& stop) {
  return concluded(run, evaluate_split(run, Split::test, stop), stop);
}

}  // namespace attnlab
