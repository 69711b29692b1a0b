// The task contract: owns loss, metrics and evaluation protocols.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/contracts/dataset.h"
#include "framework/contracts/model.h"

namespace attnlab {

/// Metrics by name, e.g. {"accuracy", 0.91}.
using Metrics = std::map<std::string, double>;

/// Collects what metrics need over the batches of one evaluation.
class Meter {
 public:
  virtual ~Meter() = default;
  virtual void add(const NamedTensors& outputs, const Batch& batch) = 0;
  /// @throws Error when nothing was added.
  virtual Metrics result() const = 0;
};

/// Calls `use` with every batch of a split, in order, on the model's device.
using BatchSource = std::function<void(const std::function<void(const Batch&)>& use)>;

/// What the host gives a task when it builds it.
struct TaskSetup {
  const DatasetInfo& data;
};

/// The name and direction of the metric that a task is judged by.
struct Headline {
  std::string metric;
  bool higher_is_better = true;
};

class Task {
 public:
  virtual ~Task() = default;

  /// The training loss of a batch. @returns a scalar tensor that gradients flow from.
  virtual Tensor loss(const NamedTensors& outputs, const Batch& batch) const = 0;
  /// The same for models trained together, whose batches and outputs stand one after the other.
  /// By default `loss` of each; worth overriding where there are many members and little work.
  /// @returns [members]
  virtual Tensor losses(const NamedTensors& outputs, const Batch& batch,
                        std::int64_t members) const;
  virtual std::unique_ptr<Meter> meter() const = 0;
  virtual Headline headline() const = 0;

  /// The evaluation protocols that this task knows; "clean" is the split as it is. Others corrupt
  /// the input, attack the model, explain its answers.
  virtual std::vector<std::string> protocols() const { return {"clean"}; }
  /// Evaluates under one protocol. The model is in evaluation mode; gradients are off unless the
  /// protocol turns them on.
  /// @throws ConfigError for a protocol that is not among `protocols()`.
  virtual Metrics evaluate(const std::string& protocol, Model& model,
                           const BatchSource& batches) const;
  /// Metrics of a finished run that follow from others, e.g. which kind of solution it found. They
  /// are added to those of the test split. By default none.
  /// @param training  evaluates the training split, "clean" and without augmentation; not called,
  ///                  it costs nothing
  /// @param test      the run's metrics on the test split
  virtual Metrics conclude(const std::function<Metrics()>& training, const Metrics& test) const;
};

}  // namespace attnlab
