// Runs that are trained step by step side by side: one alone, or the members of an ensemble.
#pragma once

#include <vector>

#include "framework/train/training.h"

namespace attnlab {

/// Where gradients come from.
class GradientSource {
 public:
  virtual ~GradientSource() = default;
  /// Leaves the gradients of each run's examples in the parameters of its model.
  /// @param batch  as many examples of each run, one run's after the other's; of one run, what
  ///               `Training::next` gave
  /// @returns each run's mean loss.
  virtual std::vector<double> backward(const StepBatch& batch) = 0;
  /// Forgets the gradients.
  virtual void forget() = 0;
};

/// The gradients of one run, by itself.
class RunGradients final : public GradientSource {
 public:
  RunGradients(BuiltRun& run, Training& training) : run_(run), training_(training) {}
  std::vector<double> backward(const StepBatch& batch) override;
  void forget() override;

 private:
  BuiltRun& run_;
  Training& training_;
};

/// Trains until all have ended or `stop` is set; then those that have not end with a checkpoint.
/// @param trainings  at the same step, of runs with equally many steps an epoch; begun
/// @param gradients  takes examples of each of them; one that has ended is given another's
void train_in_step(const std::vector<Training*>& trainings, GradientSource& gradients,
                   const std::atomic<bool>& stop);

}  // namespace attnlab
