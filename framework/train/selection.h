// Which epoch's model counts, and when training ends: `train.protocol` and `train.early_stop`.
//
//   last       the model of the last epoch
//   sound      the best epoch by a metric on the validation split; test is read once, at the end
//   published  the best epoch by a metric on the test split itself, as much published code does
//              under the name of validation; its numbers are a maximum over epochs, hence
//              optimistic
//
// A tie counts as a new best, as in the Time-Series-Library (thuml, commit 4e938a17).
#pragma once

#include <vector>

#include "framework/base/metric.h"
#include "framework/contracts/task.h"
#include "framework/experiment/experiment.h"

namespace attnlab {

/// The best evaluation so far; part of a run's position.
struct BestEpoch {
  std::int64_t epoch = 0;  ///< 0: none yet
  double value = 0;        ///< of the metric
  std::int64_t stale = 0;  ///< evaluations since
};

class EpochSelection {
 public:
  /// @param metrics  the task's, its headline first
  /// @throws ConfigError for a metric that is not among them, with near names, and for one without
  ///         a better direction where `early_stop.mode` does not give it.
  EpochSelection(const TrainOptions& train, const std::vector<MetricInfo>& metrics);

  /// False for the protocol `last`: nothing is judged.
  bool active() const { return active_; }
  /// The split that epochs are judged by.
  Split split() const { return split_; }
  const std::string& metric() const { return metric_; }

  /// Takes an evaluation into account. @returns whether it is the best so far.
  /// @throws ConfigError where the task states the metric and does not give it.
  bool judge(const Metrics& metrics, std::int64_t epoch, BestEpoch& best) const;
  /// Whether patience has run out.
  bool exhausted(const BestEpoch& best) const;

 private:
  bool active_, higher_ = true;
  Split split_;
  std::string metric_;
  std::int64_t patience_;
};

}  // namespace attnlab
