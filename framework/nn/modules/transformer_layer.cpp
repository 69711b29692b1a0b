#include "framework/nn/modules/transformer_layer.h"

namespace attnlab {

TransformerLayer::TransformerLayer(const TransformerLayerOptions& options,
                                   const AttentionBuilder& attention)
    : norm_first_(options.norm_first) {
  const auto norm = [&](const char* name) {
    return register_module(
        name, std::make_shared<LayerNorm>(options.mlp.dim, options.eps, 1, options.norm_bias));
  };
  attention_norm_ = norm("attention_norm");
  attention_ = register_module("attention",
                               std::make_shared<MultiHeadAttention>(options.attention, attention));
  mlp_norm_ = norm("mlp_norm");
  mlp_ = register_module("mlp", std::make_shared<Mlp>(options.mlp));
}

Tensor TransformerLayer::forward(const Tensor& x, AttentionContext& context,
                                 const AttentionExtras& extras, const Tensor& memory) const {
  const Tensor sources = memory.defined() ? at::cat({memory, x}, 1) : x;
  const Tensor keys = norm_first_ ? attention_norm_->forward(sources) : sources;
  Tensor queries = keys;
  if (memory.defined()) queries = norm_first_ ? keys.narrow(1, memory.size(1), x.size(1)) : x;
  return finished(x, attention_->forward(queries, keys, keys, context, extras));
}

Tensor TransformerLayer::forward_cached(const Tensor& x, KeyCache& cache, AttentionContext& context,
                                        const AttentionExtras& extras) const {
  const Tensor tokens = norm_first_ ? attention_norm_->forward(x) : x;
  return finished(x, attention_->forward_cached(tokens, cache, context, extras));
}

Tensor TransformerLayer::finished(const Tensor& x, const Tensor& attended) const {
  const Tensor y = norm_first_ ? x + attended : attention_norm_->forward(x + attended);
  return norm_first_ ? y + mlp_->forward(mlp_norm_->forward(y))
                     : mlp_norm_->forward(y + mlp_->forward(y));
}

void TransformerLayer::start(double std, double norm_std, double residual_std) {
  const at::NoGradGuard no_gradients;
  start_normal(*this, std, norm_std);
  start_normal(*attention_, std);
  start_normal(*mlp_, std);
  attention_->output().weight.normal_(0, residual_std);
  mlp_->output().weight.normal_(0, residual_std);
}

}  // namespace attnlab
