// The building blocks that models share: see the header.
#include "framework/nn/modules/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/nn/kernels/dropout.h"
#include "framework/nn/kernels/gelu.h"
#include "framework/nn/kernels/linear.h"
#include "framework/nn/modules/member_norm.h"
#include "framework/nn/modules/sizes_alone.h"

namespace attnlab {
namespace {

thread_local int asking_sizes = 0;

}  // namespace

SizesAlone::SizesAlone() { ++asking_sizes; }
SizesAlone::~SizesAlone() { --asking_sizes; }
bool SizesAlone::asked() { return asking_sizes > 0; }

void fill_truncated_normal(Tensor& tensor, double std, double low, double high) {
  if (!(std > 0) || !(low < high)) {
    throw ShapeError(
        fmt::format("fill_truncated_normal: std must be positive and low below high, found std "
                    "{:f}, low {:f}, high {:f}",
                    std, low, high));
  }
  const at::NoGradGuard no_gradients;
  if (SizesAlone::asked()) {
    tensor.fill_(std);
    return;
  }
  // erf(z / sqrt(2)) = 2 Phi(z) - 1, so a uniform number between the bounds' values of it comes
  // back as a normal one. In double: a float's uniform draws hit -1 itself, whose inverse is -inf.
  const double root = std::sqrt(2.0);
  const Tensor draws = at::empty(tensor.sizes(), at::TensorOptions().dtype(at::kDouble));
  draws.uniform_(std::erf(low / (std * root)), std::erf(high / (std * root)));
  tensor.copy_(draws.erfinv_().mul_(std * root).clamp_(low, high));
}

Linear::Linear(std::int64_t in, std::int64_t out, bool with_bias, std::int64_t members)
    : members_(members) {
  weight = register_parameter("weight", at::empty({members * out, in}));
  fill_truncated_normal(weight);
  if (with_bias) bias = register_parameter("bias", at::zeros({members * out}));
}

Tensor Linear::forward(const Tensor& x, MemberRows rows) const {
  return member_linear(x, weight, bias, members_, rows);
}

Tensor Linear::forward_after(const Tensor& before, const Tensor& x, MemberRows rows) const {
  if (members_ > 1) throw ShapeError("Linear: tokens before others are not for ensembles");
  const auto some = [&](const Tensor& t) {
    return t.defined() && rows.count > 0 ? t.narrow(0, rows.first, rows.count) : t;
  };
  return linear_after(before, x, some(weight), some(bias));
}

std::vector<Tensor> Linear::forward_parts(const Tensor& x, std::int64_t first,
                                          const std::vector<std::int64_t>& widths) const {
  return member_linears(x, weight, bias, members_, first, widths);
}

std::vector<Tensor> Linear::forward_parts(const Tensor& x, const Tensor& places, std::int64_t first,
                                          const std::vector<std::int64_t>& widths) const {
  return placed_linears(x, places, weight, bias, members_, first, widths);
}

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

void start_normal(const torch::nn::Module& block, double std, double norm_std) {
  const at::NoGradGuard no_gradients;
  for (const auto& child : block.children()) {
    if (auto* linear = child->as<Linear>()) {
      linear->weight.normal_(0, std);
      if (linear->bias.defined()) linear->bias.zero_();
    }
    auto* norm = child->as<LayerNorm>();
    if (norm != nullptr && norm_std > 0) norm->weight.normal_(1, norm_std);
  }
}

LayerNorm::LayerNorm(std::int64_t dim, double eps, std::int64_t members, bool with_bias,
                     NormKind kind)
    : dim_(dim), eps_(eps), members_(members), kind_(kind) {
  if (kind == NormKind::rms) with_bias = false;
  if (members > 1 && !with_bias) throw ShapeError("LayerNorm: those of an ensemble have biases");
  weight = register_parameter("weight", at::ones({members * dim}));
  if (with_bias) bias = register_parameter("bias", at::zeros({members * dim}));
}

Tensor LayerNorm::forward(const Tensor& x) const {
  return member_layer_norm(x, weight, bias, eps_, members_, kind_);
}

SumAndNorm LayerNorm::forward_sum(const Tensor& x, const Tensor& y) const {
  if (members_ == 1) return add_layer_norm(x, y, weight, bias, eps_, kind_);
  const Tensor sum = x + y;
  return {sum, forward(sum)};
}

Tensor LayerNorm::forward_heads(const Tensor& x) const {
  if (members_ == 1) return forward(x);
  const std::int64_t heads = x.size(1);
  return at::addcmul(per_head(bias, members_, heads), at::layer_norm(x, {dim_}, {}, {}, eps_),
                     per_head(weight, members_, heads));
}

std::int64_t gated_hidden(std::int64_t hidden, std::int64_t multiple) {
  if (multiple == 0) return hidden;
  const std::int64_t channels = std::max<std::int64_t>(2 * hidden / 3, 1);
  return (channels + multiple - 1) / multiple * multiple;
}

Mlp::Mlp(const MlpOptions& options)
    : options_(options),
      in_(register_module(
          "in", std::make_shared<Linear>(options.dim, (options.swiglu ? 2 : 1) * options.hidden,
                                         options.bias, options.members))),
      out_(register_module("out", std::make_shared<Linear>(options.hidden, options.dim,
                                                           options.bias, options.members))) {}

Mlp::Mlp(std::int64_t dim, std::int64_t hidden, double dropout, std::int64_t members)
    : Mlp(MlpOptions{.dim = dim,
                     .hidden = hidden,
                     .hidden_dropout = dropout,
                     .dropout = dropout,
                     .members = members}) {}

Tensor Mlp::activated(const Tensor& y) const {
  if (options_.activation == Activation::gelu_tanh) return attnlab::gelu_tanh(y);
  return options_.activation == Activation::gelu ? attnlab::gelu(y) : at::relu(y);
}

Tensor Mlp::forward(const Tensor& x) const {
  const auto drop = [this](const Tensor& y, double p) {
    return is_training() && p > 0 ? dropout(y, p) : y;
  };
  const auto finished = [&](const Tensor& y) {
    return drop(options_.output_activation ? activated(y) : y, options_.dropout);
  };
  if (options_.swiglu) {
    const std::vector<Tensor> parts = in_->forward(x).chunk(2, -1);
    const Tensor hidden = at::silu(parts[0]) * parts[1];
    return finished(out_->forward(drop(hidden, options_.hidden_dropout)));
  }
  const MlpWeights weights{in_->weight, in_->bias, out_->weight, out_->bias};
  const bool drops = is_training() && options_.hidden_dropout > 0;
  const bool has_kernel = options_.activation != Activation::gelu_tanh;
  if (options_.members == 1 && !drops && has_kernel && mlp_takes(x, weights)) {
    return finished(mlp(x, weights, options_.activation));
  }
  return finished(out_->forward(drop(activated(in_->forward(x)), options_.hidden_dropout)));
}

DropPath::DropPath(double p) : p_(p) {
  if (!(p >= 0 && p < 1)) {
    throw ShapeError(fmt::format("DropPath: the probability must lie in [0, 1), found {}", p));
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
    throw ShapeError(
        fmt::format("PatchEmbedding: patches of {} x {} pixels do not divide images of {} x {}",
                    o.patch_height, o.patch_width, o.height, o.width));
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
    throw ShapeError(fmt::format("PatchEmbedding: images must be [B, {}, {}, {}], found {}",
                                 o.channels, o.height, o.width, describe(images)));
  }
  const std::int64_t batch = images.size(0);
  const Tensor patches =
      images.reshape({batch, o.channels, rows_, o.patch_height, columns_, o.patch_width})
          .permute({0, 2, 4, 1, 3, 5})
          .reshape({batch, count(), -1});
  return attnlab::linear(patches, weight.flatten(1), bias);
}

}  // namespace attnlab
