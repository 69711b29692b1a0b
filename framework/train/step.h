// The pieces of one optimiser step: what training does, and what measures it.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "framework/train/optimizer.h"
#include "framework/train/run.h"

namespace attnlab {

/// What one step trains on, as a process has it.
struct StepBatch {
  /// The whole batch; with `train.parts`, those of its parts that are this process's: perhaps none.
  std::vector<Batch> parts;
  std::vector<std::int64_t> numbers{};  ///< with `train.parts`: which parts they are
};

/// What a step has beside its batch.
struct StepContext {
  std::int64_t number = 0;          ///< steps done before this one
  NamedTensors* carried = nullptr;  ///< what goes from batch to batch; null: nothing does
  bool record = false;              ///< whether a line of metrics.jsonl is due
  bool save = false;                ///< with `train.parts`: whether process 0 is to save
  double scale = 1;                 ///< what gradients are multiplied by (`LossScale`)
};

/// What the backward pass of a step came to.
struct StepResult {
  double loss = 0;
  /// What the task recorded of it, by its names, and as "attention/NAME" the means of the losses
  /// that attention layers added; empty where no line is due.
  Metrics parts;
  /// Names of all that attention layers added; empty without `train.attention_losses`.
  std::set<std::string> attention_losses;
  std::int64_t units = 0;  ///< with `train.parts`: of the dataset, in all parts of all processes
  bool save = false;       ///< with `train.parts`: what process 0 said
};

/// The parts that a step takes one after the other, as views: `count` equal ones, or fewer and a
/// smaller last one of a batch that `count` does not divide.
std::vector<Batch> parts_of(const Batch& batch, std::int64_t count);

/// Rows [begin, begin + size) of what is carried from batch to batch.
NamedTensors carried_rows(const NamedTensors& carried, std::int64_t begin, std::int64_t size);

/// What parts carry, as one.
NamedTensors joined_rows(const std::vector<NamedTensors>& parts);

/// Gradients of a batch, added to those that are there: of the sum of w loss over the parts of
/// `train.accumulate`, divided by the sum of w, with w = Task::weight. A part's loss is the task's
/// and, for each of `train.attention_losses`, its weight times the mean of what attention layers
/// added under that name. Stops at a part whose loss is not finite.
/// @param batch  on the run's device
/// @throws ShapeError for a loss that is not one number with a gradient, and for what the model
///         carries with a gradient or with other rows than the batch. ConfigError with the place of
///         `train.recompute` where no layer went through `recomputed`.
StepResult backward(BuiltRun& run, const Batch& batch, const StepContext& around = {});

/// The same with `train.parts`: of the sum of w loss over the parts of all processes, divided by
/// the sum of w. All processes get the same bits, whatever their number (world.h, parts.h). Each
/// part draws dropout from the stream of step and part. Where a part's loss is not finite, the loss
/// is that of the first such part, and there are no gradients.
/// @param batch  on the run's device
/// @throws as `backward`; WorldError.
StepResult backward_in_parts(BuiltRun& run, const StepBatch& batch, const StepContext& around);

/// @throws ConfigError with the place of each of `train.attention_losses` that no attention layer
///         added in a step.
void check_attention_losses(const BuiltRun& run, const StepResult& step);

/// The attention layers of a model, each once, in the order of its modules.
std::vector<std::shared_ptr<Attention>> attentions_of(const Model& model);

/// What follows an update of a run's parameters: `Trainable::after_step` says what.
class AfterStep {
 public:
  explicit AfterStep(const BuiltRun& run);
  void operator()(const StepFacts& facts) const;

 private:
  std::vector<std::shared_ptr<Attention>> attentions_;
  std::shared_ptr<Model> model_;
  std::shared_ptr<Task> task_;
};

/// The parameters of a run's model, and the task's as "task.NAME".
std::vector<OptimizedParameter> trained_parameters(const BuiltRun& run);
/// The optimiser of a run: over the model's parameters and the task's, these as "task.NAME".
Optimizer make_optimizer(const BuiltRun& run);

}  // namespace attnlab
