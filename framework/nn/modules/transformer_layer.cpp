#include "framework/nn/modules/transformer_layer.h"

#include <charconv>

#include "framework/contracts/recompute.h"

namespace attnlab {

SumAndNorm Residual::normed(const LayerNorm& norm) const {
  return added.defined() ? norm.forward_sum(x, added) : SumAndNorm{x, norm.forward(x)};
}

TransformerLayer::TransformerLayer(const TransformerLayerOptions& options,
                                   const AttentionBuilder& attention)
    : norm_first_(options.norm_first) {
  const auto norm = [&](const char* name) {
    return register_module(name, std::make_shared<LayerNorm>(options.mlp.dim, options.eps, 1,
                                                             options.norm_bias, options.norm));
  };
  attention_norm_ = norm("attention_norm");
  attention_ = register_module("attention",
                               std::make_shared<MultiHeadAttention>(options.attention, attention));
  mlp_norm_ = norm("mlp_norm");
  mlp_ = register_module("mlp", std::make_shared<Mlp>(options.mlp));
  drop_ = register_module("drop_path", std::make_shared<DropPath>(options.drop_path));
  if (options.layer_scale > 0) {
    const auto scale = [&](const char* name) {
      return register_module(name,
                             std::make_shared<LayerScale>(options.mlp.dim, options.layer_scale));
    };
    attention_scale_ = scale("attention_scale");
    mlp_scale_ = scale("mlp_scale");
  }
}

SumAndNorm TransformerLayer::begun(const Residual& before) const {
  if (!norm_first_) {
    const Tensor x = before.sum();
    return {x, x};
  }
  return before.normed(*attention_norm_);
}

Residual TransformerLayer::forward(const Residual& before, AttentionContext& context,
                                   const AttentionExtras& extras, const Tensor& memory) const {
  AttentionExtras rest = extras;
  std::vector<Tensor> inputs = {before.x, before.added, memory};
  rest.take(inputs);
  const std::vector<Tensor> out = recomputed(
      *this, inputs, context, [this, rest](const std::vector<Tensor>& in, AttentionContext& own) {
        const Residual passed = pass({in[0], in[1]}, own, rest.with(in, 3), in[2]);
        return std::vector<Tensor>{passed.x, passed.added};
      });
  return {out[0], out[1]};
}

Residual TransformerLayer::pass(const Residual& before, AttentionContext& context,
                                const AttentionExtras& extras, const Tensor& memory) const {
  if (!memory.defined()) {
    const SumAndNorm x = begun(before);
    return finished(x.sum, attention_->forward(x.norm, context, extras));
  }
  const Tensor x = before.sum();
  if (!norm_first_) return finished(x, attention_->forward_after(memory, x, context, extras));
  const Tensor keys = attention_norm_->forward(at::cat({memory, x}, 1));
  const Tensor queries = keys.narrow(1, memory.size(1), x.size(1));
  return finished(x, attention_->forward(queries, keys, keys, context, extras));
}

Residual TransformerLayer::forward_cached(const Residual& before, KeyCache& cache,
                                          AttentionContext& context,
                                          const AttentionExtras& extras) const {
  const SumAndNorm x = begun(before);
  return finished(x.sum, attention_->forward_cached(x.norm, cache, context, extras));
}

Residual TransformerLayer::finished(const Tensor& x, const Tensor& attended) const {
  if (norm_first_) {
    const SumAndNorm y = mlp_norm_->forward_sum(x, branch(attended, attention_scale_));
    return {y.sum, branch(mlp_->forward(y.norm), mlp_scale_)};
  }
  const Tensor y = attention_norm_->forward_sum(x, attended).norm;
  return {mlp_norm_->forward_sum(y, mlp_->forward(y)).norm};
}

Tensor TransformerLayer::branch(const Tensor& x, const std::shared_ptr<LayerScale>& scale) const {
  return drop_->forward(scale == nullptr ? x : scale->forward(x));
}

void TransformerLayer::start_as_pytorch() {
  start_uniform(*attention_);
  start_uniform(*mlp_);
}

void TransformerLayer::start(double std, double norm_std, double residual_std) {
  const at::NoGradGuard no_gradients;
  start_normal(*this, std, norm_std);
  start_normal(*attention_, std);
  start_normal(*mlp_, std);
  attention_->output().weight.normal_(0, residual_std);
  mlp_->output().weight.normal_(0, residual_std);
}

std::int64_t number_behind(std::string_view start, std::string_view name) {
  if (!name.starts_with(start)) return -1;
  std::int64_t number = -1;
  std::from_chars(name.data() + start.size(), name.data() + name.size(), number);
  return number;
}

}  // namespace attnlab
