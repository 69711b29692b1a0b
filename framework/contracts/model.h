// The model contract: builds layers from an attention factory, turns a batch into named outputs.
#pragma once

#include <algorithm>
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

/// What one layer of a model gives, for tasks that read features and not answers.
struct LayerFeatures {
  std::int64_t layer = 0;  ///< counted from 1
  Tensor class_token;      ///< [B, C] behind the model's last norm, if any; undefined: none
  Tensor tokens;           ///< [B, N, C] likewise, without class token; of an image row by row
  std::int64_t rows = 0, columns = 0;  ///< N = rows * columns patches of an image; 0: no grid
};

/// Asks a model for features of its layers, beside its outputs. A model that serves it lists
/// `layer_features?` under `gives`; a task that needs it takes `layer_features`.
/// (framework/eval/features.h reads them by name.)
struct FeatureTrace {
  /// Asked for: 1 the first, 2, ...; -1 the last, -2 the one before it, ...
  std::vector<std::int64_t> layers;
  std::int64_t depth = 0;            ///< of the model, which says it first
  std::vector<LayerFeatures> found;  ///< of the model, in the order of its layers, with their graph

  /// @param layer  from 1
  bool wants(std::int64_t layer) const {
    return std::any_of(layers.begin(), layers.end(), [&](std::int64_t asked) {
      return asked == layer || asked == layer - depth - 1;
    });
  }
};

/// The surroundings of one forward pass. Training or evaluation is the module's own mode.
struct ForwardPass {
  AttentionTrace* trace = nullptr;  ///< hand it to every layer's context; null: nothing recorded
  /// What goes from this batch to the next, where batches continue each other (the memory of a
  /// Transformer-XL): the model reads what it left there, and leaves what the next one needs, each
  /// tensor detached, its first dimension the rows of the batch. Empty where nothing came before;
  /// null where nothing will follow.
  NamedTensors* carried = nullptr;
  FeatureTrace* features = nullptr;  ///< null: none are asked for
};

class Model : public Trainable {
 public:
  /// @returns the outputs that the plugin's manifest lists under `gives`, e.g. logits [B, classes].
  virtual NamedTensors forward(const Batch& batch, ForwardPass& pass) = 0;
  /// Shapes of the outputs for one example, for tasks with heads of their own; by default unknown.
  virtual std::vector<FieldInfo> outputs() const { return {}; }
};

}  // namespace attnlab
