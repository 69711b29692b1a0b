// A transformer layer: attention and MLP, each with a residual and a norm, before or after it.
//
//   norm first   y = x + s Attention(LN(x)),   z = y + s Mlp(LN(y))
//   norm last    y = LN(x + Attention(x)),     z = LN(y + Mlp(y))
//
// LN is a layer norm or an RMS norm, and the MLP may be SwiGLU. s scales channels (LayerScale) and
// drops whole branches of an example in training (DropPath), where the options ask for it. Source:
// Vaswani et al. 2017 (norm last); Radford et al. 2019, GPT-2 (norm first); Touvron et al. 2021,
// CaiT (LayerScale); Huang et al. 2016 (DropPath).
#pragma once

#include <string_view>

#include "framework/nn/modules/multi_head_attention.h"

namespace attnlab {

struct TransformerLayerOptions {
  MultiHeadOptions attention;
  MlpOptions mlp;
  bool norm_first = true;
  NormKind norm = NormKind::layer;
  bool norm_bias = true;  ///< of a layer norm
  double eps = 1e-5;
  double drop_path = 0;    ///< probability of dropping a branch; norm first only
  double layer_scale = 0;  ///< of each channel at the start; 0: none; norm first only
};

/// A residual and what the layer before adds to it: the next norm does that in its own pass.
struct Residual {
  Tensor x;           ///< [B, L, dim]
  Tensor added = {};  ///< the same; undefined: nothing

  Tensor sum() const { return added.defined() ? x + added : x; }
  /// The sum, and its norm.
  SumAndNorm normed(const LayerNorm& norm) const;
};

class TransformerLayer : public torch::nn::Module {
 public:
  TransformerLayer(const TransformerLayerOptions& options, const AttentionBuilder& attention);

  /// Its inputs alone are kept where layers are computed again (recompute.h).
  /// @param before  [B, L, dim]
  /// @param memory  [B, m, dim], what this layer was given for the m tokens before: keys and values
  ///                are theirs and those of x; undefined: there are none
  Residual forward(const Residual& before, AttentionContext& context,
                   const AttentionExtras& extras = {}, const Tensor& memory = {}) const;
  /// The same, with keys and values of earlier tokens in a cache, which grows.
  Residual forward_cached(const Residual& before, KeyCache& cache, AttentionContext& context,
                          const AttentionExtras& extras) const;

  /// Weights normal with `std`, biases 0, weights of norms normal around 1 with `norm_std`.
  /// @param residual_std  of the two maps that add to the residual
  void start(double std, double norm_std, double residual_std);

  const Attention& attention() const { return attention_->attention(); }
  /// Maps as PyTorch's `nn.Linear` starts them.
  void start_as_pytorch();

 private:
  /// `forward`, which may be computed again.
  Residual pass(const Residual& before, AttentionContext& context, const AttentionExtras& extras,
                const Tensor& memory) const;
  /// The residual, and what attention reads of it.
  SumAndNorm begun(const Residual& before) const;
  /// From the residual and what attention gave.
  Residual finished(const Tensor& x, const Tensor& attended) const;
  /// Scaled, and dropped for some examples.
  Tensor branch(const Tensor& x, const std::shared_ptr<LayerScale>& scale) const;

  bool norm_first_;
  std::shared_ptr<LayerNorm> attention_norm_, mlp_norm_;
  std::shared_ptr<MultiHeadAttention> attention_;
  std::shared_ptr<Mlp> mlp_;
  std::shared_ptr<DropPath> drop_;
  std::shared_ptr<LayerScale> attention_scale_, mlp_scale_;  // null: none
};

/// The number of a layer in the name of one of its parameters, for `Trainable::depth`: 3 of
/// ("layer", "layer3.mlp.in.weight"); -1 where the name does not begin so.
std::int64_t number_behind(std::string_view start, std::string_view name);

/// A layer with its norms last that starts as PyTorch's layers do.
/// @param o  the model's options: dim, depth, heads, hidden, dropout, attention_dropout
template <class Options>
std::shared_ptr<TransformerLayer> norm_last_layer(const Options& o, std::int64_t index,
                                                  const AttentionBuilder& attention) {
  TransformerLayerOptions options;
  options.attention = {.dim = o.dim,
                       .heads = o.heads,
                       .attention_dropout = o.attention_dropout,
                       .dropout = o.dropout,
                       .layer = index,
                       .layers = o.depth};
  options.mlp = {
      .dim = o.dim, .hidden = o.hidden, .hidden_dropout = o.dropout, .dropout = o.dropout};
  options.norm_first = false;
  auto layer = std::make_shared<TransformerLayer>(options, attention);
  layer->start_as_pytorch();
  return layer;
}

}  // namespace attnlab
