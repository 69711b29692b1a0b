// What recurrences make of their layer's input, beside plain maps (source_map.h): maps of a low
// rank, and decays by step sizes.
#pragma once

#include "framework/contracts/attention.h"
#include "framework/nn/attention/source_map.h"

namespace attnlab {

/// Two linear maps, one after the other, the first without a bias, with `rank` channels between
/// them that all heads of a model share.
class LowRankSourceMap : public torch::nn::Module {
 public:
  /// @param width     of the input: AttentionShape::query_width, key_width or value_width
  /// @param channels  numbers of a head
  /// @param bias      whether the second map has one
  LowRankSourceMap(std::int64_t width, std::int64_t rank, std::int64_t channels,
                   const AttentionShape& shape, bool bias);
  /// [members * B, L, width] to [B, H, L, channels], H the heads of all members.
  Tensor forward(const Tensor& source) const { return up_->forward(down_->forward(source)); }

 private:
  std::shared_ptr<Linear> down_;
  std::shared_ptr<SourceMap> up_;
};

/// Decays by step sizes, as state space models have them:
///   Δ = softplus(x + b),   log a = -A Δ,   A = exp(l)
/// At the start A is uniform in [lowest, 16] and Δ of x = 0 log-uniform in [0.001, 0.1].
/// Source: Dao and Gu 2024, Mamba-2 (2405.21060), and its public code.
class StepDecay : public torch::nn::Module {
 public:
  /// @param channels  of a head: numbers of b, and of x
  /// @param lowest    A's bound at the start; for 0 it is as good as 0
  StepDecay(std::int64_t channels, double lowest, const AttentionShape& shape);
  /// Δ. @param x  [B, H, L, channels].
  Tensor steps(const Tensor& x) const;
  /// log a, at most 0. @param steps  Δ.
  Tensor log_decays(const Tensor& steps) const;

  Tensor log_rates;  ///< l, [H]
  Tensor bias;       ///< b, [H * channels], one head after the other
};

}  // namespace attnlab
