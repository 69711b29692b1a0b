#include "plugins/models/ia_detr/layers.h"

#include "framework/contracts/recompute.h"

namespace attnlab {
namespace {

constexpr double kEps = 1e-5;

}  // namespace

ReadingBlock::ReadingBlock(const LayerSizes& sizes, const AttentionBuilder& attention)
    : layer_(sizes.layer) {
  MultiHeadOptions options;
  options.dim = sizes.dim;
  options.heads = sizes.heads;
  options.dropout = sizes.dropout;
  options.layer = sizes.layer;
  options.layers = sizes.layers;
  norm_ = register_module("norm", std::make_shared<LayerNorm>(sizes.dim, kEps));
  attention_ =
      register_module("attention", std::make_shared<MultiHeadAttention>(options, attention));
}

Tensor ReadingBlock::read_self(const Tensor& x, const Tensor& places, ForwardState* state,
                               AttentionTrace* trace, const AttentionExtras& extras) const {
  AttentionExtras rest = extras;
  std::vector<Tensor> inputs = {x, places};
  rest.take(inputs);
  AttentionContext context{layer_, state, trace};
  const auto pass = [this, rest](const std::vector<Tensor>& in, AttentionContext& own) {
    const Tensor y = norm_->forward(in[0]), placed = y + in[1];
    return std::vector<Tensor>{in[0] +
                               attention_->forward(placed, placed, y, own, rest.with(in, 2))};
  };
  return recomputed(*this, inputs, context, pass)[0];
}

Tensor ReadingBlock::read(const Tensor& x, const Tensor& places, const Tensor& keys,
                          const Tensor& values, ForwardState* state, AttentionTrace* trace,
                          const AttentionExtras& extras) const {
  AttentionExtras rest = extras;
  std::vector<Tensor> inputs = {x, places, keys, values};
  rest.take(inputs);
  AttentionContext context{layer_, state, trace};
  const auto pass = [this, rest](const std::vector<Tensor>& in, AttentionContext& own) {
    return std::vector<Tensor>{in[0] + attention_->forward(norm_->forward(in[0]) + in[1], in[2],
                                                           in[3], own, rest.with(in, 4))};
  };
  return recomputed(*this, inputs, context, pass)[0];
}

MlpBlock::MlpBlock(const LayerSizes& sizes) {
  norm_ = register_module("norm", std::make_shared<LayerNorm>(sizes.dim, kEps));
  mlp_ = register_module("mlp", std::make_shared<Mlp>(MlpOptions{.dim = sizes.dim,
                                                                 .hidden = sizes.hidden,
                                                                 .activation = Activation::relu,
                                                                 .hidden_dropout = sizes.dropout,
                                                                 .dropout = sizes.dropout}));
}

Tensor MlpBlock::forward(const Tensor& x) const {
  AttentionContext context;
  return recomputed(*this, {x}, context, [this](const std::vector<Tensor>& in, AttentionContext&) {
    return std::vector<Tensor>{in[0] + mlp_->forward(norm_->forward(in[0]))};
  })[0];
}

DeepHead::DeepHead(std::int64_t dim, std::int64_t out, bool start_at_zero) {
  first_ = register_module("first", std::make_shared<Linear>(dim, dim));
  second_ = register_module("second", std::make_shared<Linear>(dim, dim));
  last_ = register_module("last", std::make_shared<Linear>(dim, out));
  start_uniform(*first_);
  start_uniform(*second_);
  start_uniform(*last_);
  if (!start_at_zero) return;
  const at::NoGradGuard no_gradients;
  last_->weight.zero_();
  last_->bias.zero_();
}

void DeepHead::start_at(const std::vector<double>& bias) {
  const at::NoGradGuard no_gradients;
  last_->bias.copy_(at::tensor(bias, at::kDouble));
}

Tensor DeepHead::forward(const Tensor& x) const {
  return last_->forward(at::relu(second_->forward(at::relu(first_->forward(x)))));
}

}  // namespace attnlab
