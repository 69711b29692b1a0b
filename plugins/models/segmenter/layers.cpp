#include "plugins/models/segmenter/layers.h"

#include <fmt/format.h>

#include <algorithm>

namespace attnlab {

LayerStack::LayerStack(torch::nn::Module& owner, const StackOptions& options,
                       const AttentionBuilder& attention) {
  const double last = static_cast<double>(std::max<std::int64_t>(options.depth - 1, 1));
  for (std::int64_t i = 0; i < options.depth; ++i) {
    TransformerLayerOptions layer;
    layer.attention.dim = options.dim;
    layer.attention.heads = options.heads;
    layer.attention.qkv_bias = options.qkv_bias;
    layer.attention.attention_dropout = options.attention_dropout;
    layer.attention.dropout = options.dropout;
    layer.attention.layer = i;
    layer.attention.layers = options.depth;
    layer.mlp.dim = options.dim;
    layer.mlp.hidden = options.hidden;
    layer.mlp.hidden_dropout = layer.mlp.dropout = options.dropout;
    layer.eps = options.norm_eps;
    layer.drop_path = options.drop_path * static_cast<double>(i) / last;
    layers_.push_back(owner.register_module(fmt::format("layer{}", i),
                                            std::make_shared<TransformerLayer>(layer, attention)));
  }
}

Residual LayerStack::forward(const Tensor& x, const std::function<Tensor()>& places,
                             AttentionTrace* trace) const {
  ForwardState state;
  AttentionContext context{0, &state, trace};
  const AttentionExtras plain;
  AttentionExtras placed;
  Residual residual{x};
  for (const auto& layer : layers_) {
    const bool asks = layer->attention().traits().places;
    if (asks && !placed.key_positions.defined()) {
      placed.query_positions = placed.key_positions = places();
    }
    residual = layer->forward(residual, context, asks ? placed : plain);
    ++context.layer;
  }
  return residual;
}

}  // namespace attnlab
