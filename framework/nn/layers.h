// The building blocks that models share: linear maps, norms, multi-head attention, the MLP, drop
// path, layer scale, patch embedding, and the initialisation of vision transformers.
//
// Sequences are [B, L, C] floating point. Parameters are made as float32 on the CPU; move a module
// with `to` for other dtypes and devices. Weights are drawn from LibTorch's default generator, in
// the order of construction, so one seed gives one model.
#pragma once

#include "framework/nn/attention.h"

namespace attnlab {

/// Fills a tensor with draws from N(0, std^2) cut at [low, high], by the inverse of the normal's
/// distribution function: one uniform number of the default generator for each element. The
/// bounds are absolute, as in timm and DeiT, not multiples of std.
/// @throws ShapeError when std is not positive or low is not below high.
void fill_truncated_normal(Tensor& tensor, double std = 0.02, double low = -2, double high = 2);

/// y = x W^T + b. W [out, in] starts as truncated normal (std 0.02), b [out] as zeros.
class Linear : public torch::nn::Module {
 public:
  Linear(std::int64_t in, std::int64_t out, bool bias = true);
  /// [..., in] to [..., out].
  Tensor forward(const Tensor& x) const;

  Tensor weight;
  Tensor bias;  ///< undefined without bias
};

/// Starts a map as PyTorch does: uniform in +-1/sqrt(in), weight and bias.
void start_uniform(Linear& linear);
/// The same for every Linear among a module's own children: the maps of a block, not those of the
/// attention in it.
void start_uniform(const torch::nn::Module& block);

/// Layer normalisation over the last dimension, with weight 1 and bias 0 at the start.
class LayerNorm : public torch::nn::Module {
 public:
  explicit LayerNorm(std::int64_t dim, double eps = 1e-6);
  Tensor forward(const Tensor& x) const;

  Tensor weight, bias;  ///< [dim]

 private:
  double eps_;
};

struct MultiHeadOptions {
  std::int64_t dim = 0;           ///< channels of the query sequence and of the output
  std::int64_t key_source = 0;    ///< channels of the sequence that keys come from; 0: dim
  std::int64_t value_source = 0;  ///< channels of the sequence that values come from; 0: dim
  std::int64_t heads = 1;
  std::int64_t head_dim = 0;   ///< channels of a query and a key per head; 0: dim / heads
  std::int64_t value_dim = 0;  ///< channels of a value per head; 0: head_dim
  bool qkv_bias = true;
  double attention_dropout = 0;  ///< of the weights
  double dropout = 0;            ///< of the output
  std::int64_t layer = 0;        ///< for AttentionShape
  std::int64_t layers = 1;
};

/// What goes with the queries, keys and values of one call: see AttentionInput's fields.
struct AttentionExtras {
  Visibility visible;
  Tensor bias;
  RelativePositions relative;
  Tensor query_positions, key_positions;
};

/// Projects sequences to queries, keys and values per head, attends, merges the heads, projects.
///   Y = concat_h(Attention(X_q W_q^h, X_k W_k^h, X_v W_v^h)) W_o + b_o
/// Queries, keys and values may come from one sequence, from two or from three. Where the sources
/// have equally many channels, one matrix holds all three projections (rows: queries, keys,
/// values), and self-attention takes one product.
class MultiHeadAttention : public torch::nn::Module {
 public:
  /// @throws ShapeError when heads do not divide dim and head_dim is not given.
  MultiHeadAttention(const MultiHeadOptions& options, const AttentionBuilder& attention);

  /// Self-attention. @param x  [B, L, dim]. @returns [B, L, dim].
  Tensor forward(const Tensor& x, AttentionContext& context, const AttentionExtras& extras = {});
  /// @param queries  [B, Lq, dim]
  /// @param keys     [B, Lk, key_source]
  /// @param values   [B, Lk, value_source]; another tensor than `keys` counts as another sequence.
  /// @returns [B, Lq, dim].
  Tensor forward(const Tensor& queries, const Tensor& keys, const Tensor& values,
                 AttentionContext& context, const AttentionExtras& extras = {});

  Attention& attention() { return *attention_; }

 private:
  Tensor attend(AttentionInput& input, AttentionContext& context, const AttentionExtras& extras);
  /// The query (0), key (1) or value (2) projection, split into heads: [B, H, L, D or Dv].
  Tensor project(const Tensor& x, int which) const;

  std::int64_t heads_, head_dim_, value_dim_;
  double dropout_;
  std::shared_ptr<Linear> packed_;               ///< "qkv"; null: three of their own
  std::shared_ptr<Linear> query_, key_, value_;  ///< null where packed
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<Linear> output_;
};

/// Linear, exact GELU, dropout, linear, dropout.
class Mlp : public torch::nn::Module {
 public:
  Mlp(std::int64_t dim, std::int64_t hidden, double dropout = 0);
  Tensor forward(const Tensor& x) const;

 private:
  std::shared_ptr<Linear> in_, out_;
  double dropout_;
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

  Tensor weight;  ///< [dim, C, patch_height, patch_width]
  Tensor bias;    ///< [dim]

 private:
  PatchOptions options_;
  std::int64_t rows_, columns_;
};

}  // namespace attnlab
