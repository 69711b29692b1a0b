// The building blocks that models share: linear maps, norms, the MLP, drop path, layer scale, patch
// embedding, and the initialisation of vision transformers. Multi-head attention has a file of its
// own: framework/nn/modules/multi_head_attention.h.
//
// Sequences are [B, L, C] floating point; blocks of an ensemble of E members take [E * B, L, C] and
// have parameters of E times as many rows (framework/nn/modules/members.h). Parameters are made as
// float32 on the CPU; move a module with `to` for other dtypes and devices. Weights are drawn from
// LibTorch's default generator, in the order of construction, so one seed gives one model.
#pragma once

#include "framework/nn/kernels/mlp.h"
#include "framework/nn/modules/member_norm.h"
#include "framework/nn/modules/members.h"
#include "framework/tensor/tensor.h"

namespace attnlab {

/// Fills a tensor with draws from N(0, std^2) cut at [low, high], by the inverse of the normal's
/// distribution function: one uniform number of the default generator for each element. The
/// bounds are absolute, as in timm and DeiT, not multiples of std.
/// @throws ShapeError when std is not positive or low is not below high.
void fill_truncated_normal(Tensor& tensor, double std = 0.02, double low = -2, double high = 2);

/// y = x W^T + b. W [out, in] starts as truncated normal (std 0.02), b [out] as zeros.
class Linear : public torch::nn::Module {
 public:
  Linear(std::int64_t in, std::int64_t out, bool bias = true, std::int64_t members = 1);
  /// [..., in] to [..., out].
  Tensor forward(const Tensor& x) const { return forward(x, {}); }
  /// The same by some rows of the matrix, of each member's: a part of a packed map.
  Tensor forward(const Tensor& x, MemberRows rows) const;
  /// Some rows of the matrix, of tokens and of others before them that take no gradient:
  /// `linear_after`. @throws ShapeError in an ensemble.
  Tensor forward_after(const Tensor& before, const Tensor& x, MemberRows rows) const;
  /// Several parts of a packed map, one after the other from row `first` on.
  std::vector<Tensor> forward_parts(const Tensor& x, std::int64_t first,
                                    const std::vector<std::int64_t>& widths) const;
  /// The same of tokens at places: `placed_linears`.
  std::vector<Tensor> forward_parts(const Tensor& x, const Tensor& places, std::int64_t first,
                                    const std::vector<std::int64_t>& widths) const;

  Tensor weight;  ///< [members * out, in]
  Tensor bias;    ///< [members * out]; undefined without bias

 private:
  std::int64_t members_;
};

/// Starts a map as PyTorch does: uniform in +-1/sqrt(in), weight and bias.
void start_uniform(Linear& linear);
/// The same for every Linear among a module's own children: the maps of a block, not those of the
/// attention in it.
void start_uniform(const torch::nn::Module& block);

/// Starts a block as Transformer-XL does: weights of every Linear among its children normal with
/// `std`, their biases 0, weights of every LayerNorm normal around 1 with `norm_std` (0: they
/// stay).
void start_normal(const torch::nn::Module& block, double std, double norm_std = 0);

/// Normalisation over the last dimension, with weight 1 and bias 0 at the start. The RMS norm has
/// no bias.
class LayerNorm : public torch::nn::Module {
 public:
  /// @throws ShapeError for an ensemble without biases.
  explicit LayerNorm(std::int64_t dim, double eps = 1e-6, std::int64_t members = 1,
                     bool with_bias = true, NormKind kind = NormKind::layer);
  Tensor forward(const Tensor& x) const;
  /// x + y, and forward() of that, in one pass.
  SumAndNorm forward_sum(const Tensor& x, const Tensor& y) const;
  /// The same where members stand in the heads and not in the batch.
  /// @param x  [B, H, L, dim], members divide H; see AttentionShape::members.
  Tensor forward_heads(const Tensor& x) const;

  Tensor weight, bias;  ///< [members * dim]; bias undefined without

 private:
  std::int64_t dim_;
  double eps_;
  std::int64_t members_;
  NormKind kind_;
};

/// A gated MLP with as many parameters as a plain one: two thirds of its hidden channels, rounded
/// up to a multiple. Source: Shazeer 2020; multiples of 256 are those of LLaMA's code (Touvron et
/// al. 2023), of 8 those of DINOv2's.
/// @param hidden    of the plain MLP
/// @param multiple  0: `hidden` itself
std::int64_t gated_hidden(std::int64_t hidden, std::int64_t multiple);

struct MlpOptions {
  std::int64_t dim = 0, hidden = 0;
  Activation activation = Activation::gelu;
  bool swiglu = false;  ///< W_3 (silu(W_1 x) * W_2 x), whatever the activation
  bool bias = true;
  bool output_activation = false;  ///< a second activation before the last dropout
  double hidden_dropout = 0;       ///< behind the activation
  double dropout = 0;              ///< of the output
  std::int64_t members = 1;
};

/// Linear, activation, dropout, linear, dropout. With SwiGLU the first map is two, W_1 and behind
/// it W_2, in one matrix [2 hidden, dim]. Source of that: Shazeer, GLU variants improve
/// transformer, 2020.
class Mlp : public torch::nn::Module {
 public:
  explicit Mlp(const MlpOptions& options);
  /// With GELU and biases, and one dropout in both places.
  Mlp(std::int64_t dim, std::int64_t hidden, double dropout = 0, std::int64_t members = 1);
  Tensor forward(const Tensor& x) const;

  /// The map of the hidden channels, for other starts.
  Linear& output() { return *out_; }

 private:
  Tensor activated(const Tensor& y) const;

  MlpOptions options_;
  std::shared_ptr<Linear> in_, out_;
};

/// Stochastic depth: in training each example's branch is dropped with probability p, and the
/// others are divided by 1 - p. Source: Huang et al. 2016.
class DropPath : public torch::nn::Module {
 public:
  /// @throws ShapeError when p is outside [0, 1).
  explicit DropPath(double p);
  /// @param x  [B, ...].
  Tensor forward(const Tensor& x) const;
  double probability() const { return p_; }

 private:
  double p_;
};

/// A learned factor for each channel, `start` at the start. Source: Touvron et al. 2021 (CaiT).
class LayerScale : public torch::nn::Module {
 public:
  LayerScale(std::int64_t dim, double start);
  Tensor forward(const Tensor& x) const { return x * scale; }

  Tensor scale;  ///< [dim]
};

struct PatchOptions {
  std::int64_t channels = 3;
  std::int64_t height = 0, width = 0;              ///< of an image, in pixels
  std::int64_t patch_height = 0, patch_width = 0;  ///< in pixels; they divide the image
  std::int64_t dim = 0;                            ///< channels of a token
};

/// Cuts an image into patches and maps each to a token: a convolution whose stride is its kernel,
/// computed as one matrix product. Starts as PyTorch's convolutions do: uniform in
/// +-1/sqrt(channels * patch_height * patch_width), weight and bias.
class PatchEmbedding : public torch::nn::Module {
 public:
  /// @throws ShapeError when patches do not divide the image.
  explicit PatchEmbedding(const PatchOptions& options);
  /// @param images  [B, C, height, width].
  /// @returns [B, count(), dim], row by row from the top left.
  /// @throws ShapeError for images of another shape.
  Tensor forward(const Tensor& images) const;
  std::int64_t count() const { return rows_ * columns_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }

  Tensor weight;  ///< [dim, C, patch_height, patch_width]
  Tensor bias;    ///< [dim]

 private:
  PatchOptions options_;
  std::int64_t rows_, columns_;
};

}  // namespace attnlab
