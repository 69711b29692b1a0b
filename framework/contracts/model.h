// The model contract: builds layers from an attention factory, turns a batch into named outputs.
#pragma once

#include <string>
#include <vector>

#include "framework/contracts/attention.h"
#include "framework/contracts/dataset.h"
#include "framework/contracts/trainable.h"

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
  /// What goes from this batch to the next, where batches continue each other (the memory of a
  /// Transformer-XL): the model reads what it left there, and leaves what the next one needs, each
  /// tensor detached, its first dimension the rows of the batch. Empty where nothing came before;
  /// null where nothing will follow.
  NamedTensors* carried = nullptr;
};

class Model : public Trainable {
 public:
  /// @returns the outputs that the plugin's manifest lists under `gives`, e.g. logits [B, classes].
  virtual NamedTensors forward(const Batch& batch, ForwardPass& pass) = 0;
  /// Shapes of the outputs for one example, for tasks with heads of their own; by default unknown.
  virtual std::vector<FieldInfo> outputs() const { return {}; }
};

}  // namespace attnlab
