// What models and tasks have in common: modules with parameters that are trained and saved.
#pragma once

#include <string>

#include "framework/tensor/tensor.h"

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
};

}  // namespace attnlab
