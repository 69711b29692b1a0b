// The model contract: builds layers from an attention factory, turns a batch into named outputs.
#pragma once

#include <string>

#include "framework/contracts/attention.h"
#include "framework/contracts/dataset.h"

namespace attnlab {

/// What the host gives a model when it builds it.
struct ModelSetup {
  const DatasetInfo& data;     ///< shapes and classes to fit
  AttentionBuilder attention;  ///< makes each layer's attention
  /// Models trained together as one (more than 1 only for a model whose plugin says `ensemble`).
  /// Parameters and batches are the members' one after the other along the first dimension:
  /// [members * out, in], [members * B, ...]; nothing of one member reaches another.
  std::int64_t members = 1;
};

/// The surroundings of one forward pass. Training or evaluation is the module's own mode.
struct ForwardPass {
  AttentionTrace* trace = nullptr;  ///< hand it to every layer's context; null: nothing recorded
};

class Model : public torch::nn::Module {
 public:
  /// @returns the outputs that the plugin's manifest lists under `gives`, e.g. logits [B, classes].
  virtual NamedTensors forward(const Batch& batch, ForwardPass& pass) = 0;

  /// Whether weight decay applies to a parameter. By default, as is usual for transformers: to
  /// matrices, not to biases, norms and other one-dimensional tensors.
  virtual bool decays(const std::string& name, const Tensor& parameter) const {
    (void)name;
    return parameter.dim() > 1;
  }
};

}  // namespace attnlab
