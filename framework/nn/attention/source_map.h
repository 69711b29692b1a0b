// What attentions make of their layer's input (AttentionInput::query_source and the other two):
// gates, decays, step sizes. Both parts stand in ensembles: each member has parameters of its own.
#pragma once

#include "framework/contracts/attention.h"
#include "framework/nn/modules/layers.h"

namespace attnlab {

/// A linear map of a layer's input to some numbers of each head. W starts as truncated normal (std
/// 0.02), b at `start`.
class SourceMap : public torch::nn::Module {
 public:
  /// @param width     of the input: AttentionShape::query_width, key_width or value_width
  /// @param channels  numbers of a head
  /// @param bias      whether there is b
  SourceMap(std::int64_t width, std::int64_t channels, const AttentionShape& shape,
            double start = 0, bool bias = true);
  /// [members * B, L, width] to [B, H, L, channels], H the heads of all members.
  Tensor forward(const Tensor& source) const;

 private:
  std::int64_t heads_, members_, channels_;
  std::shared_ptr<Linear> map_;
};

/// The root mean square norm of each head's row, x / √(mean(x²) + eps) · g, with one factor for
/// each channel, 1 at the start, that a member's heads share.
/// Source: Zhang and Sennrich, Root Mean Square Layer Normalization, NeurIPS 2019.
class HeadRmsNorm : public torch::nn::Module {
 public:
  HeadRmsNorm(std::int64_t channels, const AttentionShape& shape, double eps = 1e-5);
  /// @param x  [B, H, L, channels].
  Tensor forward(const Tensor& x) const;

  Tensor weight;  ///< g, [members * channels]

 private:
  std::int64_t members_, channels_;
  double eps_;
};

/// Of [members * B, L, H C], what a map of a layer's input gives: [B, members * H, L, C].
Tensor split_source_heads(const Tensor& y, std::int64_t channels, std::int64_t members);

}  // namespace attnlab
