// The training of one run, from its beginning or its checkpoint to its end or an interruption:
// batches, steps, updates, evaluation, the choice of the best epoch, checkpoints, logs and status.
// `train_in_step` drives it.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "framework/base/files.h"
#include "framework/data/loader.h"
#include "framework/host/working_folder.h"
#include "framework/tensor/gpu_use.h"
#include "framework/train/attention_log.h"
#include "framework/train/checkpoint.h"
#include "framework/train/costs.h"
#include "framework/train/parts.h"
#include "framework/train/run.h"
#include "framework/train/step.h"
#include "framework/train/tensorboard.h"
#include "framework/train/training_parts.h"
#include "framework/train/world.h"

namespace attnlab {

/// Rows of a batch, taken when they are asked for.
struct BatchPart {
  const Batch& whole;
  std::int64_t begin = 0, size = 0;

  Batch get() const { return size == whole.size ? whole : slice(whole, begin, size); }
  /// As `units_of`; slices only where it must.
  std::int64_t units(const DatasetInfo& data) const {
    return data.unit_field.empty() ? size : units_of(data, get());
  }
};

class Training {
 public:
  /// All arguments must outlive it.
  Training(BuiltRun& run, const RunFolder& folder, ProgressSink& progress,
           const std::atomic<bool>& stop);

  /// Goes to the checkpoint, where there is one, and opens the logs.
  void begin();
  /// All that could fail before the first step, and nothing that writes.
  void rehearse();
  /// Optimiser steps done.
  std::int64_t step() const { return position_.step; }

  /// Between two epochs: writes a checkpoint where the one that is done will be evaluated.
  void save_before_evaluation();
  /// Between two epochs: evaluates the one that is done, ends the run after the last.
  /// @throws Interrupted when asked to stop meanwhile.
  void turn_epoch();
  /// The batches of the epoch, from the present step on. Not with `train.parts`.
  Loader& batches();
  /// What the next step trains on; nothing at the end of the epoch.
  std::optional<StepBatch> next();
  /// Records what the attention layers make of the batch, where that is due before the next step.
  void look(const BatchPart& batch);
  /// Every step begins with random numbers of its own, so that a resumed run draws the same.
  void seed_step() const;
  /// Leaves the gradients of a batch in the parameters of model and task. @returns the loss.
  double backward(const StepBatch& batch);
  /// Updates the parameters by their gradients, or ends the run where the loss diverged.
  void update(double loss, const BatchPart& batch);
  /// Adds to the time spent in training, and within it in model and optimiser. [s]
  void count_time(double training, double stepping);
  /// Writes a checkpoint where the last one is `train.checkpoint_seconds` old.
  void save_when_due();
  /// Stops where it is, with a checkpoint.
  void interrupt();
  /// Stops without a checkpoint, because of something that went wrong elsewhere.
  void abandon(const std::string& reason);
  /// Stops where it is since other processes of the run are gone; with a checkpoint where this
  /// process has all that one needs.
  /// @param state  interrupted, or failed where one of them had an error of its own
  void go_on_without(RunState state, const std::string& reason);
  /// Whether the run came to an end or was interrupted.
  bool ended() const { return ended_; }
  /// What was recorded last.
  const RunStatus& status() const { return status_; }
  /// Whether steps are told to the progress; of many runs in step, one is enough.
  void tell_steps(bool tell) { tell_steps_ = tell; }

 private:
  using Clock = std::chrono::steady_clock;

  std::string checkpoint_path() const { return folder_.file("checkpoint.safetensors"); }
  std::string best_path() const { return folder_.file("best.safetensors"); }
  bool trained() const;
  bool in_parts() const { return train_.parts > 1; }
  bool scales_loss() const { return run_.products == Precision::float16; }
  double loss_scale() const { return scales_loss() ? position_.loss_scale.value : 1; }
  bool writes() const { return world_.first(); }
  void agree_on_weights(const std::string& stands, const std::string& remedy);
  void check_rows(const EpochPlan& plan) const;
  void keep_own_rows();
  NamedTensors all_rows();
  void count_use();
  std::int64_t epochs_done() const;
  bool between_epochs() const;
  double epoch_at(std::int64_t step) const;
  bool log_due() const { return (position_.step + 1) % train_.log_every == 0; }
  bool go_to_checkpoint();
  CheckpointParts checkpoint_parts(NamedTensors& carried) {
    return {modules_, parts_.optimizer, carried};
  }
  void write_position();
  void save();
  bool just_saved();
  void open_epoch(std::int64_t workers);
  std::vector<LayerSummary> summaries(const Batch& batch, const NamedTensors& carried);
  void log_attention(const Batch& batch, const NamedTensors& carried);
  std::string broken_weights() const;
  bool is_evaluated(std::int64_t epoch) const;
  void finish_epoch();
  void evaluate(bool last);
  void evaluate_and_select(std::int64_t epoch);
  void keep_best();
  bool lacks_best() const;
  void record(const std::string& split, Metrics metrics, const Metrics& entries = {});
  Metrics entries_of(Split split);
  Metrics result();
  Metrics last_result();
  Metrics best_result();
  void end(RunState state, const Metrics& metrics, const std::string& reason);
  void write_status(RunState state, const Metrics& metrics = {}, const std::string& reason = "");
  void write_train_line(double loss, double norm);
  void write_line(const Metrics& metrics, const std::string& split);
  void write_line(nlohmann::json line, const std::string& split, std::int64_t step);
  ProgressEvent make_event(ProgressEvent::Kind kind, const Metrics& metrics) const;
  void report(ProgressEvent::Kind kind, const Metrics& metrics);

  BuiltRun& run_;
  World& world_;
  const TrainOptions& train_;
  const RunFolder& folder_;
  ProgressSink& progress_;
  const std::atomic<bool>& stop_;
  FileOwner owner_;
  SavedModules modules_;
  /// Buffers that were not finite before the first step, as a mask of -inf is.
  std::set<std::string> never_finite_;
  TrainingParts parts_;
  AfterStep after_step_;
  Position position_;
  RunStatus status_;
  Metrics test_metrics_;
  std::unique_ptr<Loader> loader_;  ///< of the epoch that is being trained; else null
  PartPlan cut_;                    ///< what it makes, with `train.parts`
  std::int64_t epoch_ = 0;          ///< which epoch that is
  bool continuing_ = false;         ///< whether the epoch's batches continue each other
  NamedTensors carried_;            ///< from the last batch to the next: this process's rows
  NamedTensors carried_before_;     ///< to the last batch
  Metrics loss_parts_;              ///< what the task recorded of the step, where a line is due
  std::unique_ptr<LineWriter> log_;
  std::unique_ptr<EventLog> events_;  ///< null: not wanted
  PeakMemory memory_;
  GpuUse gpu_;
  WorkingFolder home_;
  Clock::time_point began_ = Clock::now(), saved_ = began_;
  Position before_;             ///< at which this process began
  double processor_began_ = 0;  ///< processor_seconds() then
  double saving_seconds_ = 0;
  bool lost_ = false;               ///< another process of the run does not answer any more
  std::int64_t units_of_step_ = 0;  ///< with `train.parts`
  bool save_now_ = false;           ///< likewise: process 0 has said so
  bool ended_ = false, traced_ = false, tell_steps_ = true;
  bool first_step_ = true;  ///< of this process
};

}  // namespace attnlab
