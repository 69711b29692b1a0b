// The building blocks that models share: see the header.
#include "framework/nn/layers.h"

#include <cmath>

#include "framework/nn/dropout.h"

namespace attnlab {

void fill_truncated_normal(Tensor& tensor, double std, double low, double high) {
  if (!(std > 0) || !(low < high)) {
    throw ShapeError("fill_truncated_normal: std must be positive and low below high, found std " +
                     std::to_string(std) + ", low " + std::to_string(low) + ", high " +
                     std::to_string(high));
  }
  const at::NoGradGuard no_gradients;
  // erf(z / sqrt(2)) = 2 Phi(z) - 1, so a uniform number between the bounds' values of it comes
  // back as a normal one. In double: a float's uniform draws hit -1 itself, whose inverse is -inf.
  const double root = std::sqrt(2.0);
  const Tensor draws = at::empty(tensor.sizes(), at::TensorOptions().dtype(at::kDouble));
  draws.uniform_(std::erf(low / (std * root)), std::erf(high / (std * root)));
  tensor.copy_(draws.erfinv_().mul_(std * root).clamp_(low, high));
}

Linear::Linear(std::int64_t in, std::int64_t out, bool with_bias) {
  weight = register_parameter("weight", at::empty({out, in}));
  fill_truncated_normal(weight);
  if (with_bias) bias = register_parameter("bias", at::zeros({out}));
}

Tensor Linear::forward(const Tensor& x) const { return at::linear(x, weight, bias); }

void start_uniform(Linear& linear) {
  const at::NoGradGuard no_gradients;
  const double bound = 1 / std::sqrt(static_cast<double>(linear.weight.size(1)));
  linear.weight.uniform_(-bound, bound);
  if (linear.bias.defined()) linear.bias.uniform_(-bound, bound);
}

void start_uniform(const torch::nn::Module& block) {
  for (const auto& child : block.children()) {
    if (auto* linear = child->as<Linear>()) start_uniform(*linear);
  }
}

LayerNorm::LayerNorm(std::int64_t dim, double eps) : eps_(eps) {
  weight = register_parameter("weight", at::ones({dim}));
  bias = register_parameter("bias", at::zeros({dim}));
}

Tensor LayerNorm::forward(const Tensor& x) const {
  return at::layer_norm(x, weight.sizes(), weight, bias, eps_);
}

MultiHeadAttention::MultiHeadAttention(const MultiHeadOptions& options,
                                       const AttentionBuilder& attention)
    : heads_(options.heads), dropout_(options.dropout) {
  const std::int64_t dim = options.dim;
  if (options.head_dim == 0 && (heads_ <= 0 || dim % heads_ != 0)) {
    throw ShapeError("MultiHeadAttention: " + std::to_string(heads_) + " heads do not divide " +
                     std::to_string(dim) + " channels; change either, or give head_dim");
  }
  head_dim_ = options.head_dim == 0 ? dim / heads_ : options.head_dim;
  value_dim_ = options.value_dim == 0 ? head_dim_ : options.value_dim;
  const std::int64_t key_source = options.key_source == 0 ? dim : options.key_source;
  const std::int64_t value_source = options.value_source == 0 ? dim : options.value_source;

  const auto linear = [&](const char* name, std::int64_t in, std::int64_t out, bool bias) {
    return register_module(name, std::make_shared<Linear>(in, out, bias));
  };
  const bool bias = options.qkv_bias;
  if (key_source == dim && value_source == dim) {
    packed_ = linear("qkv", dim, heads_ * (2 * head_dim_ + value_dim_), bias);
  } else {
    query_ = linear("query", dim, heads_ * head_dim_, bias);
    key_ = linear("key", key_source, heads_ * head_dim_, bias);
    value_ = linear("value", value_source, heads_ * value_dim_, bias);
  }
  AttentionShape shape;
  shape.heads = heads_;
  shape.head_dim = head_dim_;
  shape.value_dim = options.value_dim;
  shape.layer = options.layer;
  shape.layers = options.layers;
  shape.dropout = options.attention_dropout;
  attention_ = register_module("attention", attention(shape));
  output_ = linear("output", heads_ * value_dim_, dim, true);
}

Tensor MultiHeadAttention::project(const Tensor& x, int which) const {
  const std::int64_t channels = which == 2 ? value_dim_ : head_dim_;
  Tensor y;
  if (packed_ == nullptr) {
    y = (which == 0 ? query_ : which == 1 ? key_ : value_)->forward(x);
  } else {
    const std::int64_t first = which * heads_ * head_dim_, count = heads_ * channels;
    const Tensor& bias = packed_->bias;
    y = at::linear(x, packed_->weight.narrow(0, first, count),
                   bias.defined() ? bias.narrow(0, first, count) : bias);
  }
  return y.view({x.size(0), x.size(1), heads_, channels}).transpose(1, 2);
}

Tensor MultiHeadAttention::forward(const Tensor& x, AttentionContext& context,
                                   const AttentionExtras& extras) {
  return forward(x, x, x, context, extras);
}

Tensor MultiHeadAttention::forward(const Tensor& queries, const Tensor& keys, const Tensor& values,
                                   AttentionContext& context, const AttentionExtras& extras) {
  AttentionInput input;
  input.values_from_elsewhere = !values.is_same(keys);
  const bool one_source = queries.is_same(keys) && keys.is_same(values);
  if (packed_ != nullptr && one_source && value_dim_ == head_dim_) {
    // Views of one product: [B, L, 3, H, D] as three times [B, H, L, D], nothing is moved.
    const std::int64_t batch = queries.size(0), length = queries.size(1);
    const std::vector<Tensor> qkv =
        packed_->forward(queries).view({batch, length, 3, heads_, head_dim_}).unbind(2);
    input.queries = qkv[0].transpose(1, 2);
    input.keys = qkv[1].transpose(1, 2);
    input.values = qkv[2].transpose(1, 2);
  } else {
    input.queries = project(queries, 0);
    input.keys = project(keys, 1);
    input.values = project(values, 2);
  }
  return attend(input, context, extras);
}

Tensor MultiHeadAttention::attend(AttentionInput& input, AttentionContext& context,
                                  const AttentionExtras& extras) {
  input.visible = extras.visible;
  input.bias = extras.bias;
  input.relative = extras.relative;
  input.query_positions = extras.query_positions;
  input.key_positions = extras.key_positions;
  const Tensor heads = attention_->forward(input, context).transpose(1, 2);
  const Tensor merged = heads.reshape({heads.size(0), heads.size(1), heads_ * value_dim_});
  const Tensor y = output_->forward(merged);
  return is_training() && dropout_ > 0 ? dropout(y, dropout_) : y;
}

Mlp::Mlp(std::int64_t dim, std::int64_t hidden, double dropout)
    : in_(register_module("in", std::make_shared<Linear>(dim, hidden))),
      out_(register_module("out", std::make_shared<Linear>(hidden, dim))),
      dropout_(dropout) {}

Tensor Mlp::forward(const Tensor& x) const {
  const auto drop = [this](const Tensor& y) {
    return is_training() && dropout_ > 0 ? dropout(y, dropout_) : y;
  };
  return drop(out_->forward(drop(at::gelu(in_->forward(x)))));
}

DropPath::DropPath(double p) : p_(p) {
  if (!(p >= 0 && p < 1)) {
    throw ShapeError("DropPath: the probability must lie in [0, 1), found " + std::to_string(p));
  }
}

Tensor DropPath::forward(const Tensor& x) const {
  if (!is_training() || p_ == 0) return x;
  std::vector<std::int64_t> sizes(x.dim(), 1);
  sizes[0] = x.size(0);
  return x * at::empty(sizes, x.options()).bernoulli_(1 - p_).div_(1 - p_);
}

LayerScale::LayerScale(std::int64_t dim, double start)
    : scale(register_parameter("scale", at::full({dim}, start))) {}

PatchEmbedding::PatchEmbedding(const PatchOptions& options) : options_(options) {
  const auto& o = options_;
  if (o.patch_height <= 0 || o.patch_width <= 0 || o.height % o.patch_height != 0 ||
      o.width % o.patch_width != 0) {
    throw ShapeError("PatchEmbedding: patches of " + std::to_string(o.patch_height) + " x " +
                     std::to_string(o.patch_width) + " pixels do not divide images of " +
                     std::to_string(o.height) + " x " + std::to_string(o.width));
  }
  rows_ = o.height / o.patch_height;
  columns_ = o.width / o.patch_width;
  const double bound =
      1 / std::sqrt(static_cast<double>(o.channels * o.patch_height * o.patch_width));
  const auto uniform = [&](at::IntArrayRef sizes) {
    return at::empty(sizes).uniform_(-bound, bound);
  };
  weight =
      register_parameter("weight", uniform({o.dim, o.channels, o.patch_height, o.patch_width}));
  bias = register_parameter("bias", uniform({o.dim}));
}

Tensor PatchEmbedding::forward(const Tensor& images) const {
  const auto& o = options_;
  if (images.dim() != 4 || images.size(1) != o.channels || images.size(2) != o.height ||
      images.size(3) != o.width) {
    throw ShapeError("PatchEmbedding: images must be [B, " + std::to_string(o.channels) + ", " +
                     std::to_string(o.height) + ", " + std::to_string(o.width) + "], found " +
                     describe(images));
  }
  const std::int64_t batch = images.size(0);
  const Tensor patches =
      images.reshape({batch, o.channels, rows_, o.patch_height, columns_, o.patch_width})
          .permute({0, 2, 4, 1, 3, 5})
          .reshape({batch, count(), -1});
  return at::linear(patches, weight.flatten(1), bias);
}

}  // namespace attnlab
