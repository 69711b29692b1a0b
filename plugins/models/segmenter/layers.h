// Layers that Segmenter's encoder and decoder are made of, norm first.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "framework/nn/modules/transformer_layer.h"

namespace attnlab {

struct StackOptions {
  std::int64_t dim = 0, depth = 0, heads = 0, hidden = 0;
  bool qkv_bias = true;
  double drop_path = 0;  ///< of the last layer; from 0 in the first along a line
  double dropout = 0, attention_dropout = 0;
  double norm_eps = 1e-5;
};

/// Layers that share a ForwardState.
class LayerStack {
 public:
  /// Registers "layer0", "layer1", ... of a module.
  LayerStack(torch::nn::Module& owner, const StackOptions& options,
             const AttentionBuilder& attention);

  /// @param x       [B, L, dim]
  /// @param places  [1, L, 2], called where a layer's attention asks for places
  /// @returns the residual behind the last layer.
  Residual forward(const Tensor& x, const std::function<Tensor()>& places,
                   AttentionTrace* trace) const;

 private:
  std::vector<std::shared_ptr<TransformerLayer>> layers_;
};

}  // namespace attnlab
