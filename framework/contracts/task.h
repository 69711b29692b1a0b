// The task contract: owns the training step, the loss, the metrics and how they are evaluated.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/error.h"
#include "framework/base/metric.h"
#include "framework/contracts/dataset.h"
#include "framework/contracts/model.h"

namespace attnlab {

class Task;

/// Metrics by name, e.g. {"accuracy", 0.91}.
using Metrics = std::map<std::string, double>;

/// Some metrics have no value for what was measured: an area under a ROC curve, where all answers
/// are alike. A whole split cannot be judged then; of one example by itself, the others count.
class UndefinedMetrics : public DataError {
 public:
  UndefinedMetrics(const std::string& what, Metrics others)
      : DataError(what), others_(std::move(others)) {}
  /// Those that have a value.
  const Metrics& others() const { return others_; }

 private:
  Metrics others_;
};

/// Collects what metrics need over the batches of one evaluation.
class Meter {
 public:
  virtual ~Meter() = default;
  virtual void add(const NamedTensors& outputs, const Batch& batch) = 0;
  /// @throws Error when nothing was added; UndefinedMetrics.
  virtual Metrics result() const = 0;
};

/// What the host gives a task when it builds it.
struct TaskSetup {
  const DatasetInfo& data;
  std::vector<FieldInfo> outputs{};  ///< the model's, where it says; for heads
  std::int64_t steps = 0;            ///< of the run; 0: nothing is trained by this object
  std::int64_t steps_per_epoch = 0;
  bool average = false;  ///< whether the run keeps running means (`train.average`), as teachers
};

/// One training step, as the task sees it. With `train.accumulate` it is one part of a step.
struct TrainingStep {
  Model& model;
  const Batch& batch;               ///< on the model's device
  NamedTensors* carried = nullptr;  ///< for `ForwardPass::carried`, of these rows
  std::int64_t number = 0;          ///< steps done before this one
  std::int64_t steps = 0;           ///< of the whole run
  std::int64_t steps_per_epoch = 0;
  Random random{0};  ///< the step's own, for what the task draws (mixup)
  /// Running means of the model and of this task's parameters, e.g. as a teacher; in evaluation
  /// mode. Null without `train.average`.
  Model* average_model = nullptr;
  const Task* average_task = nullptr;
  /// Takes a part of the loss by name, for the lines of metrics.jsonl; empty where no line is due.
  std::function<void(std::string_view part, const Tensor& value)> record{};
};

/// What an evaluation makes of the training split, so that it need not be made again for the same
/// weights.
struct Fitted {
  /// A probe: written beside the result of an entry of `evaluate:`, and there when it is asked
  /// again.
  NamedTensors saved;
  NamedTensors kept;  ///< in memory alone: features
};

/// One evaluation, as the task sees it. Model and task are in evaluation mode, gradients are off.
struct Evaluation {
  Model& model;
  const DatasetInfo& data;
  Split split = Split::test;
  RandomStreams streams{0};  ///< for what the evaluation draws (attacks, noise)
  /// Calls `use` with every batch of a split, in order, on the model's device.
  std::function<void(Split split, const std::function<void(const Batch&)>& use)> batches;
  /// The same with the model's outputs, of a forward pass that goes on from the batch before where
  /// batches continue each other. Several processes of a run share the passes out. Empty:
  /// `evaluate` runs the model itself.
  std::function<void(Split split,
                     const std::function<void(const Batch&, const NamedTensors& outputs)>& use)>
      passes{};
  /// Calls `use` with the batches of an epoch of training: augmented, in random order. Empty: there
  /// are none.
  std::function<void(std::uint64_t epoch, const std::function<void(const Batch&)>& use)> training{};
  /// For what is fitted; empty at first. Null: nothing is kept.
  Fitted* fitted = nullptr;
};

/// A task is a module: heads, class centres and projections that only training or evaluation needs
/// are its parameters, trained and saved with the model's, under "task." before their names.
class Task : public Trainable {
 public:
  /// The loss of a batch of training; by default `loss` of one forward pass. Override it for what
  /// needs more: mixed targets, two views, a teacher.
  /// @returns a scalar tensor that gradients flow from.
  virtual Tensor step(TrainingStep& step);
  /// The training loss of one forward pass.
  /// @returns a scalar tensor that gradients flow from.
  virtual Tensor loss(const NamedTensors& outputs, const Batch& batch) const;
  /// The same for models trained together, whose batches and outputs stand one after the other.
  /// By default `loss` of each; worth overriding where there are many members and little work. Only
  /// tasks whose plugin says `ensemble` are asked: it promises each member what `step` gives it, or
  /// throws where it cannot (images that are mixed).
  /// @returns [members]
  virtual Tensor losses(const NamedTensors& outputs, const Batch& batch,
                        std::int64_t members) const;
  /// How many terms the loss of a batch is the mean of: parts of a step (`train.accumulate`) count
  /// by it. By default its examples.
  virtual double weight(const Batch& batch) const { return static_cast<double>(batch.size); }

  /// What the task measures; the first is the one that it is judged by.
  virtual std::vector<MetricInfo> metrics() const = 0;
  /// Needed by the default of `evaluate`.
  virtual std::unique_ptr<Meter> meter() const;
  /// Measures a model on a split; by default a meter over forward passes of its batches, with what
  /// they carry where they continue each other.
  virtual Metrics evaluate(Evaluation& evaluation) const;
  /// Metrics of a finished run that follow from others, e.g. which kind of solution it found. They
  /// are added to those of the test split. By default none.
  /// @param training  evaluates the training split without augmentation; not called, it costs
  ///                  nothing
  /// @param test      the run's metrics on the test split
  virtual Metrics conclude(const std::function<Metrics()>& training, const Metrics& test) const;
};

}  // namespace attnlab
