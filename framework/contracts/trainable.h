// What models and tasks have in common: modules with parameters that are trained and saved.
#pragma once

#include <string>

#include "framework/contracts/attention.h"

namespace attnlab {

class Trainable : public torch::nn::Module {
 public:
  /// Whether weight decay applies to a parameter. By default, as is usual for transformers: to
  /// matrices, not to biases, norms and other vectors. One number for each row ([H, 1, 1], a scale
  /// of each head) is a vector, too.
  virtual bool decays(const std::string& name, const Tensor& parameter) const {
    (void)name;
    const bool number_a_row = parameter.dim() > 2 && parameter.numel() == parameter.size(0);
    return parameter.dim() > 1 && !number_a_row;
  }
  /// How deep a parameter lies, for learning rates that fall from the output to the input
  /// (`layer_decay`): 0 for what comes first (embeddings), 1 for the first layer, and so on.
  /// -1: as deep as what comes last.
  virtual std::int64_t depth(const std::string& name) const {
    (void)name;
    return -1;
  }
  /// A saved tensor in the shape that this module has, where `init:` gives it another one, e.g.
  /// positions of another image size. By default the saved tensor itself.
  virtual Tensor adapt(const std::string& name, const Tensor& saved) const {
    (void)name;
    return saved;
  }
  /// Called after each step of the optimiser: for rules on weights that no gradient gives, as unit
  /// norms or a bound on logits. By default nothing. `Attention::after_step` is the same for a
  /// layer's attention. When and how:
  /// - Once for each update, after the optimiser's, before running means (`train.average`),
  ///   evaluations and checkpoints see the weights: first the model's attention layers, in the
  ///   order of its modules, then the model, then the task. The parts of `train.accumulate` are one
  ///   step. A step whose loss is not finite updates nothing and ends the run: no call.
  /// - Gradients are off, and those of the step are still there. Change values in place: the
  ///   optimiser, the means and an ensemble hold the same tensors. Parameters are float32 whatever
  ///   `train.precision` says. Those that a group freezes can be changed, too.
  /// - What it keeps from step to step must be in parameters or buffers: a resumed run does not
  ///   call it for the steps that are done.
  /// - Running means are of weights after the call, and are not changed by one: a mean of unit
  ///   vectors is shorter than 1.
  /// - In an ensemble each member's own modules are called, whose parameters are rows of the
  ///   ensemble's. Forward passes of training go through the ensemble: what they would leave for
  ///   this call is not there. An attention that needs it refuses AttentionShape::members above 1.
  virtual void after_step(const StepFacts& facts) { (void)facts; }
};

}  // namespace attnlab
