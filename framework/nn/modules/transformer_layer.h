// A transformer layer: attention and MLP, each with a residual and a norm, before or after it.
//
//   norm first   y = x + Attention(LN(x)),   z = y + Mlp(LN(y))
//   norm last    y = LN(x + Attention(x)),   z = LN(y + Mlp(y))
//
// Source: Vaswani et al. 2017 (norm last); Radford et al. 2019, GPT-2 (norm first).
#pragma once

#include "framework/nn/modules/multi_head_attention.h"

namespace attnlab {

struct TransformerLayerOptions {
  MultiHeadOptions attention;
  MlpOptions mlp;
  bool norm_first = true;
  bool norm_bias = true;
  double eps = 1e-5;
};

class TransformerLayer : public torch::nn::Module {
 public:
  TransformerLayer(const TransformerLayerOptions& options, const AttentionBuilder& attention);

  /// @param x       [B, L, dim]
  /// @param memory  [B, m, dim], what this layer was given for the m tokens before: keys and values
  ///                are theirs and those of x; undefined: there are none
  /// @returns [B, L, dim].
  Tensor forward(const Tensor& x, AttentionContext& context, const AttentionExtras& extras,
                 const Tensor& memory = {}) const;
  /// The same, with keys and values of earlier tokens in a cache, which grows.
  Tensor forward_cached(const Tensor& x, KeyCache& cache, AttentionContext& context,
                        const AttentionExtras& extras) const;

  /// Weights normal with `std`, biases 0, weights of norms normal around 1 with `norm_std`.
  /// @param residual_std  of the two maps that add to the residual
  void start(double std, double norm_std, double residual_std);

  const Attention& attention() const { return attention_->attention(); }

 private:
  /// From the residual and what attention gave.
  Tensor finished(const Tensor& x, const Tensor& attended) const;

  bool norm_first_;
  std::shared_ptr<LayerNorm> attention_norm_, mlp_norm_;
  std::shared_ptr<MultiHeadAttention> attention_;
  std::shared_ptr<Mlp> mlp_;
};

}  // namespace attnlab
