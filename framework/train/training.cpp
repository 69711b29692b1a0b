#include "framework/train/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <utility>

#include "framework/base/clock.h"
#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/base/work_to_save.h"
#include "framework/costs/costs.h"
#include "framework/host/working_folder.h"
#include "framework/train/entries.h"
#include "framework/train/environment.h"
#include "framework/train/evaluation.h"

namespace attnlab {
namespace {

/// Training takes at least so many times as long as the checkpoints at the ends of epochs (half of
/// that with those before evaluations).
constexpr double kSavingShare = 30;

/// The first of the task's metrics whose value is not a number; empty: none. (What has no value, as
/// the recall of a class without examples, a task leaves out of its result.)
std::string broken_metric(const std::vector<MetricInfo>& metrics, const Metrics& result) {
  for (const MetricInfo& metric : metrics) {
    const auto found = result.find(metric.name);
    if (found != result.end() && !std::isfinite(found->second)) return metric.name;
  }
  return "";
}

/// Names of the buffers that hold what is not a number.
std::set<std::string> broken_buffers(const SavedModules& modules) {
  std::set<std::string> names;
  for (const auto& [prefix, module] : modules) {
    for (const auto& buffer : module->named_buffers()) {
      if (!buffer.value().isfinite().all().item<bool>()) names.insert(prefix + buffer.key());
    }
  }
  return names;
}

nlohmann::json json_of(const Metrics& metrics) {
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [name, value] : metrics) out[name] = finite_or_null(value);
  return out;
}

}  // namespace

Training::Training(BuiltRun& run, const RunFolder& folder, ProgressSink& progress,
                   const std::atomic<bool>& stop)
    : run_(run),
      world_(*run.world),
      train_(run.experiment.train),
      folder_(folder),
      progress_(progress),
      stop_(stop),
      owner_{run.experiment.hash(), run.seed},
      modules_(modules_of(run)),
      never_finite_(broken_buffers(modules_)),
      parts_(take_training_parts(run)),
      after_step_(run),
      memory_(run.device),
      gpu_(run.device) {}

void Training::begin() {
  if (writes()) remove_dead_temporaries(folder_.path());
  const bool keep = go_to_checkpoint();
  agree_on_weights("begins",  // (and all have read, before anything is written)
                   "the run's folder must be on a disk that all processes see, and their "
                   "processors and libraries must make the same numbers");
  if (keep) keep_best();
  if (writes()) {
    // Lines after the checkpoint belong to steps that will be done again.
    log_ = std::make_unique<LineWriter>(folder_.file("metrics.jsonl"), position_.metrics_bytes);
  }
  if (writes() && train_.tensorboard) {
    events_ =
        std::make_unique<EventLog>(folder_.file("tensorboard"), folder_.file("metrics.jsonl"));
  }
  began_ = saved_ = Clock::now();
  processor_began_ = processor_seconds();
  before_ = position_;
  run_.model->train();
  run_.task->train();
  write_status(RunState::running);
  ProgressEvent started = make_event(ProgressEvent::Kind::start, {});
  started.infos = run_metrics(run_);
  progress_.report(started);
  // It runs the model, which may hang or die: the status says by now that this run had begun.
  if (writes()) record_environment(run_, folder_, position_.step);
}

void Training::rehearse() {
  go_to_checkpoint();
  const bool evaluates = epochs_done() > position_.evaluated_epochs;  // before any step
  if (trained() || evaluates) return;
  open_epoch(/*workers=*/0);
  const std::optional<StepBatch> batch = next();
  // Of one example: what the layers refuse, they refuse of any.
  if (trace_due(run_.experiment.trace, position_.step + 1)) {
    const Batch& shown = batch->parts.front();
    summaries(shown.size > 1 ? slice(shown, 0, 1) : shown, carried_);
  }
  if (train_.attention_losses.empty() && train_.recompute == "none") return;
  run_.model->train();
  run_.task->train();
  seed_step();
  backward(*batch);  // which losses layers add, and what can be computed again, only a step shows
}

/// @returns whether the chosen epoch's model is the present one, and still to be kept.
bool Training::go_to_checkpoint() {
  if (!std::filesystem::exists(checkpoint_path())) return false;
  const Position position = read_checkpoint(checkpoint_path(), checkpoint_parts(carried_), owner_);
  // Behind its end a run would never come to it. (With other data that were accepted, more epochs
  // may be evaluated than its steps now make.)
  if (position.step > run_.total_steps() || position.evaluated_epochs > run_.epochs()) {
    throw DataError(fmt::format(
        "{}: stands at step {} with {} epochs evaluated, and the run has {} steps in {} epochs: of "
        "other data, or damaged; start a new run",
        checkpoint_path(), position.step, position.evaluated_epochs, run_.total_steps(),
        run_.epochs()));
  }
  position_ = position;
  keep_own_rows();
  carried_ = carried_.to(run_.device);
  return lacks_best();
}

void Training::turn_epoch() {
  loader_.reset();
  if (epochs_done() > position_.evaluated_epochs) {
    agree_on_weights("stands",
                     "their processors and libraries must make the same numbers; start a new run "
                     "on machines that are alike");
    const std::string broken = broken_weights();
    if (!broken.empty()) {
      count_use();
      return end(RunState::diverged, {},
                 fmt::format("{} not finite after step {}", broken, position_.step));
    }
    finish_epoch();
  }
  if (!trained()) return;
  const Metrics metrics = result();
  const std::string broken = broken_metric(run_.task->metrics(), metrics);
  if (broken.empty()) return end(RunState::done, metrics, "");
  end(RunState::diverged, {},
      fmt::format("the result's {} was not finite after step {}", broken, position_.step));
}

/// What the last update left without numbers: the next loss, which would show it, may never come.
/// @returns "the parameters were"; empty: nothing.
std::string Training::broken_weights() const {
  for (const auto& [prefix, module] : modules_) {
    const std::vector<Tensor> all = module->parameters();
    const bool finite = std::all_of(all.begin(), all.end(), [](const Tensor& one) {
      return one.isfinite().all().item<bool>();
    });
    if (!finite) return "the parameters were";
  }
  for (const std::string& name : broken_buffers(modules_)) {
    if (never_finite_.count(name) == 0) return fmt::format("the buffer {} was", name);
  }
  return "";
}

/// Every epoch is done and evaluated, or patience has run out.
bool Training::trained() const {
  return position_.evaluated_epochs == run_.epochs() || parts_.selection.exhausted(position_.best);
}

std::int64_t Training::epochs_done() const {
  return position_.step == run_.total_steps() ? run_.epochs()
                                              : position_.step / run_.steps_per_epoch;
}

bool Training::between_epochs() const {
  return position_.step == run_.total_steps() || position_.step % run_.steps_per_epoch == 0;
}

double Training::epoch_at(std::int64_t step) const {
  return static_cast<double>(step) / static_cast<double>(run_.steps_per_epoch);
}

void Training::write_position() {
  const WorkToSave saving;  // the steps since the last checkpoint
  home_.check("training");
  count_use();
  NamedTensors carried = all_rows();
  if (!writes()) return parts_.optimizer.hand_over();
  log_->sync();  // the checkpoint says which lines belong to it
  position_.metrics_bytes = log_->size();
  position_.seconds = before_.seconds + seconds_since(began_);
  const bool first = !std::filesystem::exists(checkpoint_path());
  write_checkpoint(checkpoint_path(), checkpoint_parts(carried), position_, owner_);
  if (first) write_status(RunState::running);  // it says from now on that there is a checkpoint
}

void Training::save() {
  const Clock::time_point begin = Clock::now();
  write_position();
  saved_ = Clock::now();
  saving_seconds_ = std::chrono::duration<double>(saved_ - begin).count();
}

/// Whether a checkpoint between two epochs would be a large part of the time that training takes:
/// of runs trained together, all write theirs.
bool Training::just_saved() {
  const double all = saving_seconds_ * static_cast<double>(run_.together);
  return world_.first_says(seconds_since(saved_) <
                           std::min(kSavingShare * all, train_.checkpoint_seconds));
}

void Training::save_when_due() {
  const bool due =
      world_.size() > 1 ? save_now_ : seconds_since(saved_) >= train_.checkpoint_seconds;
  if (!ended_ && due) save();
}

/// From the present step on.
void Training::open_epoch(std::int64_t workers) {
  const auto epoch = static_cast<std::uint64_t>(epochs_done());
  LoaderSettings settings;
  settings.augment = true;
  settings.epoch = epoch;
  settings.first_batch = position_.step % run_.steps_per_epoch;
  settings.workers = workers;
  settings.prefetch = train_.prefetch;
  settings.stop = &stop_;
  if (settings.first_batch == 0) {
    position_.epoch_loss = 0;
    carried_ = {};
  }
  EpochPlan plan = training_plan(run_, epoch);
  continuing_ = plan.continues;
  epoch_ = static_cast<std::int64_t>(epoch);
  if (in_parts()) {
    check_rows(plan);
    const OwnParts own = own_parts(world_, train_.parts);
    cut_ = cut_into_parts(plan, train_.parts, own);
    const std::int64_t step = settings.first_batch;
    settings.first_batch = step == 0 ? 0 : cut_.ends[static_cast<std::size_t>(step) - 1];
    settings.only = cut_.own;
    settings.prefetch *= own.count;
    plan = std::move(cut_.plan);
  }
  loader_ = std::make_unique<Loader>(*run_.dataset, run_.streams, std::move(plan), settings);
}

Loader& Training::batches() {
  if (loader_ == nullptr) open_epoch(train_.workers);
  return *loader_;
}

std::optional<StepBatch> Training::next() {
  if (loader_ == nullptr) open_epoch(train_.workers);
  if (!in_parts()) {
    std::optional<Batch> batch = next_of({loader_.get()});
    if (!batch) return std::nullopt;
    return StepBatch{{*std::move(batch)}};
  }
  const WorkToSave loading;  // the stop is agreed on in the step
  const std::int64_t step = position_.step - epoch_ * run_.steps_per_epoch;
  if (step == std::int64_t(cut_.ends.size())) return std::nullopt;
  const std::int64_t begin = step == 0 ? 0 : cut_.ends[static_cast<std::size_t>(step) - 1];
  StepBatch batch;
  for (std::int64_t i = begin; i < cut_.ends[static_cast<std::size_t>(step)]; ++i) {
    batch.parts.push_back(*loader_->next());
    batch.parts.back().continues = continuing_ && step > 0;
    batch.numbers.push_back(cut_.parts[static_cast<std::size_t>(i)]);
  }
  return batch;
}

/// With `train.parts` the first part is looked at: process 0 has it, however many there are.
void Training::look(const BatchPart& batch) {
  traced_ = writes() && trace_due(run_.experiment.trace, position_.step + 1);
  if (traced_) log_attention(batch.get(), carried_);
}

/// What the attention layers make of a batch before the next step.
/// @param carried  from the batch before
std::vector<LayerSummary> Training::summaries(const Batch& whole, const NamedTensors& carried) {
  seed_step();
  const std::vector<Batch> parts = parts_of(to_device(whole, run_.device), train_.accumulate);
  const NamedTensors rows =
      in_parts() ? carried_rows(carried, 0, whole.size) : carried;  // of the first part
  return summarise_attention(*run_.model, parts, run_.experiment.trace.record,
                             &run_.dataset->info(), continuing_ ? &rows : nullptr);
}

/// A line each.
void Training::log_attention(const Batch& whole, const NamedTensors& carried) {
  for (const LayerSummary& layer : summaries(whole, carried)) {
    write_line(trace_line(layer), "trace", position_.step + 1);
  }
}

void Training::seed_step() const {
  at::manual_seed(run_.streams.key("dropout", static_cast<std::uint64_t>(position_.step)));
}

double Training::backward(const StepBatch& batch) {
  StepBatch here = batch;
  for (Batch& part : here.parts) part = to_device(part, run_.device);
  if (!here.parts.empty() && !here.parts.front().continues) carried_ = {};
  carried_before_ = carried_;
  const StepContext around{.number = position_.step,
                           .carried = continuing_ ? &carried_ : nullptr,
                           .record = log_due(),
                           .save = seconds_since(saved_) >= train_.checkpoint_seconds,
                           .scale = loss_scale()};
  StepResult result = in_parts() ? backward_in_parts(run_, here, around)
                                 : attnlab::backward(run_, here.parts.front(), around);
  units_of_step_ = result.units;
  save_now_ = result.save;
  if (std::exchange(first_step_, false)) check_attention_losses(run_, result);
  loss_parts_ = std::move(result.parts);
  return result.loss;
}

void Training::update(double loss, const BatchPart& batch) {
  home_.check("a step of training");
  if (!std::isfinite(loss) || (train_.diverged_above > 0 && loss > train_.diverged_above)) {
    // The parameters are those that diverged: nothing was updated.
    if (run_.experiment.trace.every > 0 && !traced_ && writes()) {
      log_attention(batch.get(), carried_before_);
    }
    count_use();
    return end(RunState::diverged, {},
               fmt::format("the training loss was {:f} at step {}", loss, position_.step + 1));
  }
  const bool log = log_due();
  parts_.optimizer.set_pace(
      pace_at(parts_.schedule, position_.step));  // which says whose gradients count
  const double scale = loss_scale();
  const double norm =
      log || train_.clip_norm > 0 || scales_loss() ? parts_.optimizer.gradient_norm() / scale : 0;
  const bool moves = !scales_loss() || std::isfinite(norm);
  if (scales_loss()) position_.loss_scale.update(moves);
  if (scales_loss() && position_.loss_scale.exhausted()) {
    count_use();
    return end(RunState::diverged, {},
               fmt::format("the gradients were not finite at step {}, however small the loss was "
                           "scaled",
                           position_.step + 1));
  }
  if (moves) {
    parts_.optimizer.step(clip_factor(norm, train_.clip_norm) / scale);
    after_step_({position_.step, parts_.optimizer.learning_rate()});
    if (parts_.average != nullptr) {
      parts_.average->update(average_decay(train_.average, position_.step, run_.total_steps()));
    }
  }
  ++position_.step;
  position_.units += in_parts() ? units_of_step_ : batch.units(run_.dataset->info());
  position_.epoch_loss += loss;
  if (log) write_train_line(loss, norm);
  if (tell_steps_) report(ProgressEvent::Kind::step, {{"loss", loss}});
}

void Training::write_train_line(double loss, double norm) {
  Metrics line = {
      {"loss", loss}, {"lr", parts_.optimizer.learning_rate()}, {"gradient_norm", norm}};
  if (scales_loss()) line["loss_scale"] = position_.loss_scale.value;
  for (const auto& [name, value] : loss_parts_) line["loss/" + name] = value;
  write_line(line, "train");
}

void Training::count_time(double training, double stepping) {
  position_.train_seconds += training;
  position_.step_seconds += stepping;
  gpu_.look();
}

bool Training::is_evaluated(std::int64_t epoch) const {
  return epoch == run_.epochs() || epoch % train_.evaluate_every == 0;
}

void Training::save_before_evaluation() {
  const std::int64_t epoch = epochs_done();
  if (epoch <= position_.evaluated_epochs || !is_evaluated(epoch) || just_saved()) return;
  // (Not counted as the epoch's own checkpoint: that follows as if this had not been.)
  if (broken_weights().empty()) write_position();
}

/// Evaluation (where it is due), the best model, checkpoint.
void Training::finish_epoch() {
  const std::int64_t epoch = epochs_done();
  position_.last_epoch_loss =
      position_.epoch_loss / static_cast<double>(run_.steps_of_epoch(epoch - 1));
  const bool last = epoch == run_.epochs();
  if (is_evaluated(epoch)) {
    parts_.selection.active() ? evaluate_and_select(epoch) : evaluate(last);
  }
  position_.evaluated_epochs = epoch;
  const bool chosen = parts_.selection.active() && position_.best.epoch == epoch;
  if (!trained() && !chosen && just_saved()) return;
  save();
  if (chosen) keep_best();
  write_status(RunState::running);
}

/// Once the checkpoint that holds this model, too, is on the disk: after a kill in between it is
/// made of that. (The other way round, the file could be of an epoch that the run, trained again
/// from an older checkpoint on another machine, does not choose.)
void Training::keep_best() {
  home_.check("training");
  if (!writes()) return;
  write_weights(best_path(), modules_, owner_, position_.best.epoch);
}

/// The model of the chosen epoch is kept, whenever the run was interrupted.
/// @returns whether it is the present one, which no file holds. @throws DataError.
bool Training::lacks_best() const {
  const std::int64_t epoch = position_.best.epoch;
  if (!parts_.selection.active() || epoch == 0) return false;
  const bool there = std::filesystem::exists(best_path());
  const std::int64_t found = there ? epoch_of_weights(best_path()) : 0;
  if (found == epoch || (there && found == 0)) return false;  // (0: of an earlier version)
  if (between_epochs() && epochs_done() == epoch) return true;
  throw DataError(
      fmt::format("{}: {}, and the run chose epoch {}; put its own file back, or start a new run",
                  best_path(), there ? fmt::format("is of epoch {}", found) : "is missing", epoch));
}

void Training::evaluate(bool last) {
  const bool has_validation = run_.dataset->size(Split::validation) > 0;
  // Both or none are recorded: stopped in between, a resumed run evaluates again.
  Metrics validation, test;
  if (has_validation) validation = evaluate_split(run_, Split::validation, stop_);
  if (last || !has_validation) test = evaluate_split(run_, Split::test, stop_);
  const Metrics held_out = entries_of(Split::validation), tested = entries_of(Split::test);
  if (has_validation || !held_out.empty()) record("validation", validation, held_out);
  if (last || !has_validation || !tested.empty()) record("test", test, tested);
}

/// Entries of `evaluate:` with `when: each`.
Metrics Training::entries_of(Split split) {
  if (run_.each == nullptr) return {};
  return run_.each->evaluate(run_, split, average_weights(run_), stop_,
                             [this](const std::string& text) { progress_.say(text); });
}

void Training::evaluate_and_select(std::int64_t epoch) {
  const Split split = parts_.selection.split();
  const Split other = split == Split::test ? Split::validation : Split::test;
  const Metrics metrics = evaluate_split(run_, split, stop_);
  const Metrics entries = entries_of(split), others = entries_of(other);
  Metrics all = metrics;
  all.insert(entries.begin(), entries.end());
  parts_.selection.judge(all, epoch, position_.best);
  record(std::string(name_of(split)), metrics, entries);
  if (!others.empty()) record(std::string(name_of(other)), {}, others);
}

/// @param entries  of `evaluate:`; they are not part of the run's own result
void Training::record(const std::string& split, Metrics metrics, const Metrics& entries) {
  if (split == "test") test_metrics_ = metrics;
  metrics.insert(entries.begin(), entries.end());
  write_line(metrics, split);
  metrics["train_loss"] = position_.last_epoch_loss;
  report(ProgressEvent::Kind::evaluation, metrics);
}

Metrics Training::result() {
  Metrics metrics =
      concluded(run_, parts_.selection.active() ? best_result() : last_result(), stop_);
  metrics["train_loss"] = position_.last_epoch_loss;
  metrics[throughput_name(run_.dataset->info().unit)] =
      static_cast<double>(position_.units) / position_.train_seconds;
  metrics["host_share"] = 1.0 - position_.step_seconds / position_.train_seconds;
  metrics[kPeakMemory] = static_cast<double>(memory_.bytes());
  if (const std::optional<double> busy = gpu_.mean()) metrics["gpu_utilisation"] = *busy;
  count_use();
  return metrics;
}

/// A run that was killed between its last checkpoint and its end evaluates again.
Metrics Training::last_result() {
  return test_metrics_.empty() ? evaluate_split(run_, Split::test, stop_) : test_metrics_;
}

/// The best epoch's model on the test split. It takes the place of the last one.
Metrics Training::best_result() {
  world_.meet();  // process 0 has written the file
  read_weights(best_path(), modules_, owner_);
  Metrics metrics = evaluate_split(run_, Split::test, stop_);
  metrics["best_epoch"] = static_cast<double>(position_.best.epoch);
  if (parts_.selection.split() != Split::test) record("test", metrics);  // else it is recorded
  return metrics;
}

void Training::interrupt() {
  // A trained run's checkpoint is written, and its model may be the best epoch's by now. One that
  // has not begun begins again as it did, and its records with it.
  if (!trained() && position_.step > 0) save();
  end(RunState::interrupted, {}, fmt::format("at step {}", position_.step));
}

void Training::abandon(const std::string& reason) {
  ended_ = true;
  home_.go_back();
  try {
    write_status(RunState::interrupted, {}, reason);
  } catch (const Error&) {  // a full disk has no room for a status either: the first error counts
  }
}

void Training::go_on_without(RunState state, const std::string& reason) {
  if (std::exchange(ended_, true)) return;
  lost_ = true;
  home_.go_back();
  if (log_ == nullptr) return;  // it does not write, or has not begun
  // The weights are those of the last whole step. Rows that others carried are gone with them, and
  // so are their shares of the optimiser's moments; with shares they may stand within a step.
  const bool has_all = parts_.optimizer.is_whole() && (between_epochs() || !continuing_);
  if (has_all && !trained() && position_.step > 0) {
    continuing_ = false;
    carried_ = {};
    save();
  }
  end(state, {}, reason);
}

void Training::end(RunState state, const Metrics& metrics, const std::string& reason) {
  ended_ = true;  // (the loader goes with this: it waits for the examples that are being read)
  write_status(state, metrics, reason);
  ProgressEvent event = make_event(ProgressEvent::Kind::end, metrics);
  event.text = std::string(name_of(state)) + (reason.empty() ? "" : ": " + reason);
  if (state == RunState::done && parts_.selection.active()) {
    event.text += fmt::format(", epoch {} of {}; {}", position_.best.epoch, epochs_done(),
                              protocol_note(run_.experiment));
  }
  progress_.report(event);
}

void Training::write_status(RunState state, const Metrics& metrics, const std::string& reason) {
  status_ = {};
  status_.state = state;
  status_.step = position_.step;
  status_.steps = trained() ? position_.step : run_.total_steps();
  status_.epoch = epoch_at(position_.step);
  status_.seconds = before_.seconds + seconds_since(began_);
  status_.processor_seconds = position_.processor_seconds;
  status_.device_seconds = position_.device_seconds;
  status_.metrics = metrics;
  status_.reason = reason;
  home_.check("training");
  if (!writes()) return;
  if (status_.finished()) log_->sync();  // a finished run's status says what its lines are
  folder_.write_status(status_);
}

void Training::write_line(const Metrics& metrics, const std::string& split) {
  write_line(json_of(metrics), split, position_.step);
}

void Training::write_line(nlohmann::json line, const std::string& split, std::int64_t step) {
  if (!writes()) return;
  line["split"] = split;
  line["step"] = step;
  line["epoch"] = epoch_at(step);
  std::string text = json_text(line, -1);
  text.pop_back();  // the end of the line
  log_->line(text);
  if (events_ != nullptr) events_->add(text);
}

ProgressEvent Training::make_event(ProgressEvent::Kind kind, const Metrics& metrics) const {
  ProgressEvent event;
  event.kind = kind;
  event.run = RunFolder::label(run_.experiment, run_.seed);
  event.step = position_.step;
  event.steps = run_.total_steps();
  event.epoch = epoch_at(position_.step);
  event.metrics = metrics;
  return event;
}

void Training::report(ProgressEvent::Kind kind, const Metrics& metrics) {
  progress_.report(make_event(kind, metrics));
}

}  // namespace attnlab
