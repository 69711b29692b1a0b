// A model's training step on one fixed batch, timed: what benchmarks against PyTorch share.
#pragma once

#include <chrono>
#include <cmath>
#include <memory>
#include <utility>

#include "framework/train/optimizer.h"
#include "tests/support/plugins.h"

namespace attnlab::bench {

/// Forward, loss, backward, clipping and AdamW as `attnlab run` does them.
class TrainingStep {
 public:
  /// @param clip  the largest norm of all gradients
  TrainingStep(Batch batch, std::shared_ptr<Model> model, std::shared_ptr<Task> task,
               const OptimizerOptions& optimizer, double clip)
      : batch_(std::move(batch)),
        model_(std::move(model)),
        task_(std::move(task)),
        optimizer_(make_optimizer(*model_, optimizer)),
        clip_(clip) {
    model_->train();
  }

  /// @returns how long one step took. @throws Error where the loss is not finite.
  double seconds() {
    const auto begin = std::chrono::steady_clock::now();
    ForwardPass pass;
    const Tensor loss = task_->loss(model_->forward(batch_, pass), batch_);
    if (!std::isfinite(loss.item<double>())) {
      throw Error("the loss is not finite: this times nothing");
    }
    loss.backward();
    optimizer_.step(clip_factor(optimizer_.gradient_norm(), clip_));
    optimizer_.zero_grad();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  Batch batch_;
  std::shared_ptr<Model> model_;
  std::shared_ptr<Task> task_;
  Optimizer optimizer_;
  double clip_;
};

}  // namespace attnlab::bench
