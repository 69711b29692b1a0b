#include "framework/train/run.h"

#include <ATen/Context.h>
#include <c10/core/GradMode.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "framework/core/files.h"
#include "framework/data/loader.h"
#include "framework/nn/device.h"
#include "framework/train/attention_log.h"
#include "framework/train/checkpoint.h"
#include "framework/train/costs.h"
#include "framework/train/environment.h"
#include "framework/train/schedule.h"
#include "framework/train/selection.h"
#include "framework/train/step.h"
#include "framework/train/tensorboard.h"

namespace attnlab {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

BatchSource batches_of(const BuiltRun& run, Split split, const std::atomic<bool>& stop) {
  return [&run, split, &stop](const std::function<void(const Batch&)>& use) {
    const TrainOptions& train = run.experiment.train;
    LoaderSettings settings;
    settings.split = split;
    settings.batch_size = train.eval_batch_size;
    settings.workers = train.workers;
    settings.prefetch = train.prefetch;
    Loader loader(*run.dataset, run.streams, in_order(run.dataset->size(split)), settings);
    while (auto batch = loader.next()) {
      if (stop) throw Interrupted();
      use(to_device(*batch, run.device));
    }
  };
}

Metrics evaluate_split(BuiltRun& run, Split split, const std::atomic<bool>& stop) {
  const c10::NoGradGuard no_grad;
  run.model->eval();
  const BatchSource batches = batches_of(run, split, stop);
  Metrics all;
  for (const std::string& protocol : run.task->protocols()) {
    const std::string prefix = protocol == "clean" ? "" : protocol + "/";
    for (const auto& [name, value] : run.task->evaluate(protocol, *run.model, batches)) {
      all[prefix + name] = value;
    }
  }
  run.model->train();
  return all;
}

/// Adds what the task concludes from a finished run.
/// @param test  its metrics on the test split
Metrics concluded(BuiltRun& run, Metrics test, const std::atomic<bool>& stop) {
  const auto training = [&run, &stop] {
    const c10::NoGradGuard no_grad;
    run.model->eval();
    Metrics metrics = run.task->evaluate("clean", *run.model, batches_of(run, Split::train, stop));
    run.model->train();
    return metrics;
  };
  test.merge(run.task->conclude(training, test));
  return test;
}

Schedule make_schedule(const BuiltRun& run) {
  const TrainOptions& train = run.experiment.train;
  Schedule schedule;
  schedule.shape =
      train.schedule.shape == "cosine" ? Schedule::Shape::cosine : Schedule::Shape::constant;
  schedule.warmup_steps = static_cast<std::int64_t>(
      std::llround(train.schedule.warmup_epochs * static_cast<double>(run.steps_per_epoch)));
  schedule.total_steps = run.total_steps();
  schedule.base = train.optimizer.lr;
  schedule.warmup_start = std::min(train.schedule.warmup_lr, train.optimizer.lr);
  schedule.minimum = std::min(train.schedule.min_lr, train.optimizer.lr);
  return schedule;
}

nlohmann::json json_of(const Metrics& metrics) {
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [name, value] : metrics) {
    out[name] = std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
  }
  return out;
}

/// One sitting of a run.
class Trainer {
 public:
  Trainer(BuiltRun& run, const RunFolder& folder, ProgressSink& progress,
          const std::atomic<bool>& stop)
      : run_(run),
        train_(run.experiment.train),
        folder_(folder),
        progress_(progress),
        stop_(stop),
        hash_(run.experiment.hash()),
        optimizer_(make_optimizer(*run.model, run.experiment.train.optimizer)),
        schedule_(make_schedule(run)),
        selection_(run.experiment.train, run.task->headline()) {}

  RunStatus run() {
    resume();
    run_.model->train();
    write_status(RunState::running);
    report(ProgressEvent::Kind::start, {});
    // It runs the model, which may hang or die: the status says by now that this run had begun.
    write_file(folder_.file("environment.json"), environment_json(run_));
    try {
      if (epochs_done() > position_.evaluated_epochs) finish_epoch();
      while (!stop_ && !trained()) {
        if (!train_epoch()) return end(RunState::diverged, {}, reason_);
        if (position_.step % run_.steps_per_epoch == 0) finish_epoch();
      }
      if (trained()) return end(RunState::done, result(), "");
    } catch (const Interrupted&) {  // left in the middle of an evaluation
    }
    // A trained run's checkpoint is written, and its model may be the best epoch's by now.
    if (!trained()) save();
    return end(RunState::interrupted, {}, "at step " + std::to_string(position_.step));
  }

 private:
  std::string checkpoint_path() const { return folder_.file("checkpoint.safetensors"); }
  std::string best_path() const { return folder_.file("best.safetensors"); }
  /// Every epoch is done and evaluated, or patience has run out.
  bool trained() const {
    return position_.evaluated_epochs == train_.epochs || selection_.exhausted(position_.best);
  }
  std::int64_t epochs_done() const { return position_.step / run_.steps_per_epoch; }
  double epoch_at(std::int64_t step) const {
    return static_cast<double>(step) / static_cast<double>(run_.steps_per_epoch);
  }
  double epoch_now() const { return epoch_at(position_.step); }

  /// What a killed process was writing when it died.
  void remove_leftovers() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename().string();
      if (name.find(".tmp-") != std::string::npos) std::filesystem::remove(entry.path());
    }
  }

  void resume() {
    remove_leftovers();
    if (std::filesystem::exists(checkpoint_path())) {
      position_ = read_checkpoint(checkpoint_path(), *run_.model, &optimizer_, hash_);
    }
    // Lines after the checkpoint belong to steps that will be done again.
    log_ = std::make_unique<LineWriter>(folder_.file("metrics.jsonl"), position_.metrics_bytes);
    if (train_.tensorboard) {
      events_ =
          std::make_unique<EventLog>(folder_.file("tensorboard"), folder_.file("metrics.jsonl"));
    }
    sitting_ = Clock::now();
    seconds_before_ = position_.seconds;
    saved_ = Clock::now();
  }

  void save() {
    position_.metrics_bytes = log_->size();
    position_.seconds = seconds_before_ + seconds_since(sitting_);
    write_checkpoint(checkpoint_path(), *run_.model, optimizer_, position_, hash_);
    saved_ = Clock::now();
  }

  /// From the present step to the end of its epoch, or until stopped.
  /// @returns false when the loss diverged.
  bool train_epoch() {
    const auto epoch = static_cast<std::uint64_t>(epochs_done());
    LoaderSettings settings;
    settings.batch_size = train_.batch_size;
    settings.drop_last = train_.drop_last;
    settings.augment = true;
    settings.epoch = epoch;
    settings.first_batch = position_.step % run_.steps_per_epoch;
    settings.workers = train_.workers;
    settings.prefetch = train_.prefetch;
    if (settings.first_batch == 0) position_.epoch_loss = 0;
    Loader loader(
        *run_.dataset, run_.streams,
        permutation(run_.dataset->size(Split::train), run_.streams.stream("order", epoch)),
        settings);
    Clock::time_point mark = Clock::now();
    while (!stop_) {
      const auto batch = loader.next();
      if (!batch) break;
      const bool traced = trace_due(run_.experiment.trace, position_.step + 1);
      if (traced) mark += log_attention(*batch);  // looking is no training
      const bool sound = step(*batch);
      position_.train_seconds += seconds_since(mark);
      mark = Clock::now();
      if (!sound) {
        // The parameters are those that diverged: nothing was updated.
        if (run_.experiment.trace.every > 0 && !traced) log_attention(*batch);
        return false;
      }
      if (seconds_since(saved_) >= train_.checkpoint_seconds) {
        save();
        mark = Clock::now();  // writing a checkpoint is no training
      }
    }
    return true;
  }

  /// What the attention layers make of a batch before the next step: a line each.
  /// @returns the time that it took.
  Clock::duration log_attention(const Batch& whole) {
    const Clock::time_point begin = Clock::now();
    const std::int64_t next = position_.step + 1;
    at::manual_seed(run_.streams.key("dropout", static_cast<std::uint64_t>(position_.step)));
    const std::vector<Batch> parts = parts_of(to_device(whole, run_.device), train_.accumulate);
    for (const LayerSummary& layer :
         summarise_attention(*run_.model, parts, run_.experiment.trace.record)) {
      nlohmann::json line = json_of(layer.numbers);
      line["layer"] = layer.layer;
      if (layer.call > 0) line["call"] = layer.call;
      write_line(std::move(line), "trace", next);
    }
    return Clock::now() - begin;
  }

  /// One optimiser step. @returns false when the loss diverged (nothing is updated then).
  bool step(const Batch& whole) {
    const Clock::time_point begin = Clock::now();
    // Dropout of this step, whatever was drawn before: a resumed run draws the same.
    at::manual_seed(run_.streams.key("dropout", static_cast<std::uint64_t>(position_.step)));
    const Batch batch = to_device(whole, run_.device);
    const double loss = backward(run_, batch);
    if (!std::isfinite(loss) || (train_.diverged_above > 0 && loss > train_.diverged_above)) {
      reason_ = "the training loss was " + std::to_string(loss) + " at step " +
                std::to_string(position_.step + 1);
      return false;
    }
    const bool log = (position_.step + 1) % train_.log_every == 0;
    const double norm = log || train_.clip_norm > 0 ? optimizer_.gradient_norm() : 0;
    const double rate = learning_rate(schedule_, position_.step);
    optimizer_.set_learning_rate(rate);
    optimizer_.step(clip_factor(norm, train_.clip_norm));
    optimizer_.zero_grad();
    position_.step_seconds += seconds_since(begin);
    ++position_.step;
    position_.epoch_loss += loss;
    if (log) {
      write_line({{"loss", loss}, {"lr", rate}, {"gradient_norm", norm}}, "train");
    }
    report(ProgressEvent::Kind::step, {{"loss", loss}});
    return true;
  }

  /// Evaluation (where it is due), the best model, checkpoint.
  void finish_epoch() {
    const std::int64_t epoch = epochs_done();
    position_.last_epoch_loss = position_.epoch_loss / static_cast<double>(run_.steps_per_epoch);
    const bool last = epoch == train_.epochs;
    if (last || epoch % train_.evaluate_every == 0) {
      selection_.active() ? evaluate_and_select(epoch) : evaluate(last);
    }
    position_.evaluated_epochs = epoch;
    save();
    write_status(RunState::running);
  }

  void evaluate(bool last) {
    const bool has_validation = run_.dataset->size(Split::validation) > 0;
    // Both or none are recorded: stopped in between, a resumed run evaluates again.
    Metrics validation, test;
    if (has_validation) validation = evaluate_split(run_, Split::validation, stop_);
    if (last || !has_validation) test = evaluate_split(run_, Split::test, stop_);
    if (has_validation) record("validation", validation);
    if (last || !has_validation) record("test", test);
  }

  /// The best model is on the disk before the checkpoint says so. A kill in between leaves a model
  /// of the future, which the same epoch, trained again, writes again.
  void evaluate_and_select(std::int64_t epoch) {
    const Metrics metrics = evaluate_split(run_, selection_.split(), stop_);
    if (selection_.judge(metrics, epoch, position_.best)) {
      write_model(best_path(), *run_.model, hash_);
    }
    record(std::string(name_of(selection_.split())), metrics);
  }

  void record(const std::string& split, Metrics metrics) {
    if (split == "test") test_metrics_ = metrics;
    write_line(metrics, split);
    metrics["train_loss"] = position_.last_epoch_loss;
    report(ProgressEvent::Kind::evaluation, metrics);
  }

  Metrics result() {
    Metrics metrics = concluded(run_, selection_.active() ? best_result() : last_result(), stop_);
    metrics["train_loss"] = position_.last_epoch_loss;
    metrics["examples_per_second"] = static_cast<double>(examples_seen()) / position_.train_seconds;
    metrics["host_share"] = 1.0 - position_.step_seconds / position_.train_seconds;
    metrics["peak_memory"] = static_cast<double>(memory_.bytes());
    return metrics;
  }

  /// A run that was killed between its last checkpoint and its end evaluates again.
  Metrics last_result() {
    return test_metrics_.empty() ? evaluate_split(run_, Split::test, stop_) : test_metrics_;
  }

  /// The best epoch's model on the test split. It takes the place of the last one.
  Metrics best_result() {
    read_model(best_path(), *run_.model, hash_);
    Metrics metrics = evaluate_split(run_, Split::test, stop_);
    metrics["best_epoch"] = static_cast<double>(position_.best.epoch);
    if (selection_.split() != Split::test) record("test", metrics);  // else it is recorded
    return metrics;
  }

  std::int64_t examples_seen() const {
    const std::int64_t all = run_.dataset->size(Split::train), batch = train_.batch_size;
    const std::int64_t epoch = train_.drop_last ? run_.steps_per_epoch * batch : all;
    return epochs_done() * epoch + position_.step % run_.steps_per_epoch * batch;
  }

  RunStatus end(RunState state, const Metrics& metrics, const std::string& reason) {
    RunStatus status = write_status(state, metrics, reason);
    ProgressEvent event = make_event(ProgressEvent::Kind::end, metrics);
    event.text = std::string(name_of(state)) + (reason.empty() ? "" : ": " + reason);
    if (state == RunState::done && selection_.active()) {
      event.text += ", epoch " + std::to_string(position_.best.epoch) + " of " +
                    std::to_string(epochs_done()) + "; " + protocol_note(run_.experiment);
    }
    progress_.report(event);
    return status;
  }

  RunStatus write_status(RunState state, const Metrics& metrics = {},
                         const std::string& reason = "") {
    RunStatus status;
    status.state = state;
    status.step = position_.step;
    status.steps = trained() ? position_.step : run_.total_steps();
    status.epoch = epoch_now();
    status.seconds = seconds_before_ + seconds_since(sitting_);
    status.metrics = metrics;
    status.reason = reason;
    folder_.write_status(status);
    return status;
  }

  void write_line(const Metrics& metrics, const std::string& split) {
    write_line(json_of(metrics), split, position_.step);
  }

  void write_line(nlohmann::json line, const std::string& split, std::int64_t step) {
    line["split"] = split;
    line["step"] = step;
    line["epoch"] = epoch_at(step);
    const std::string text = line.dump();
    log_->line(text);
    if (events_ != nullptr) events_->add(text);
  }

  ProgressEvent make_event(ProgressEvent::Kind kind, const Metrics& metrics) const {
    ProgressEvent event;
    event.kind = kind;
    event.run = RunFolder::label(run_.experiment, run_.seed);
    event.step = position_.step;
    event.steps = run_.total_steps();
    event.epoch = epoch_now();
    event.metrics = metrics;
    return event;
  }

  void report(ProgressEvent::Kind kind, const Metrics& metrics) {
    progress_.report(make_event(kind, metrics));
  }

  BuiltRun& run_;
  const TrainOptions& train_;
  const RunFolder& folder_;
  ProgressSink& progress_;
  const std::atomic<bool>& stop_;
  std::string hash_;
  Optimizer optimizer_;
  Schedule schedule_;
  EpochSelection selection_;
  Position position_;
  Metrics test_metrics_;
  std::string reason_;
  std::unique_ptr<LineWriter> log_;
  std::unique_ptr<EventLog> events_;  ///< null: not wanted
  PeakMemory memory_{run_.device};
  Clock::time_point sitting_, saved_;
  double seconds_before_ = 0;
};

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
  run.task = registry.task(experiment.task, {run.dataset->info()});
  const std::int64_t batch_size = experiment.train.batch_size;
  const std::int64_t partial = experiment.train.drop_last ? 0 : batch_size - 1;
  run.steps_per_epoch = (run.dataset->size(Split::train) + partial) / batch_size;
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
  return run;
}

RunStatus train_run(BuiltRun& run, const RunFolder& folder, ProgressSink& progress,
                    const std::atomic<bool>& stop) {
  try {
    return Trainer(run, folder, progress, stop).run();
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
