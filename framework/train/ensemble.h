// Runs trained together: many small models as one, each with its own seed, data, learning rate and
// weight decay, and the numbers that it would have alone.
//
// The ensemble is one model with the members' parameters one after the other (ModelSetup::members).
// Each member keeps a model of its own, whose parameters and gradients are rows of the ensemble's:
// evaluation, optimiser, checkpoints and logs work on it as on any run's. Only the forward and
// backward pass of a training step is common. It costs far less than one after the other, because
// small models spend their time on the overhead of operations.
#pragma once

#include <memory>
#include <vector>

#include "framework/train/lockstep.h"
#include "framework/train/run.h"

namespace attnlab {

/// The common forward and backward pass.
class Ensemble final : public GradientSource {
 public:
  /// Builds the common model and makes the runs' parameters rows of its own. Then it computes the
  /// first examples with the whole and with each member alone.
  /// @param runs  whose compositions have the same `ensemble_key`; they outlive it
  /// @throws ConfigError where the model, or the attention in it, cannot hold members, or gives
  ///         other numbers than they do alone: the cause and the remedy.
  Ensemble(const std::vector<BuiltRun*>& runs, Registry& registry);

  std::vector<double> backward(const StepBatch& batch) override;
  void forget() override;

 private:
  void share_parameters();
  void check_outputs();
  void share_gradients();

  std::vector<BuiltRun*> runs_;
  std::shared_ptr<Model> model_;
  bool gradients_shared_ = false;
};

/// A run and its folder.
struct Member {
  BuiltRun run;
  RunFolder folder;
};

/// As `train_run`, for many. Members whose data differ in shape or size, or that resume at other
/// steps, form groups of their own, one trained after the other.
/// @throws ConfigError as `Ensemble`, before anything is trained; what stops a run otherwise.
///         Members that have not ended are interrupted then: each can go on alone.
void train_ensemble(std::vector<Member>& members, Registry& registry, ProgressSink& progress,
                    const std::atomic<bool>& stop);

/// As `rehearse_run`, for many: also builds what would hold them together.
void rehearse_ensemble(std::vector<Member>& members, Registry& registry);

}  // namespace attnlab
