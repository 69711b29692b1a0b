// Positions: the sinusoids of Vaswani et al. and Transformer-XL, and its relative positions.
#pragma once

#include "framework/contracts/attention.h"
#include "framework/nn/modules/layers.h"

namespace attnlab {

/// sin(p f_i) for all i, beside cos(p f_i):  f_i = 10000^(-2i / dim),  i = 0 .. dim / 2 - 1.
/// @param places  [n] of any dtype
/// @param dim     even
/// @returns [n, dim], computed in float64, of the options' dtype and device.
Tensor sinusoids(const Tensor& places, std::int64_t dim, const at::TensorOptions& options);

/// S(d) for the distances keys - 1 down to 1 - queries, [queries + keys - 1, dim].
Tensor sinusoids_of_distances(std::int64_t queries, std::int64_t keys, std::int64_t dim,
                              const at::TensorOptions& options);

/// The relative positions of one layer, r_d = W_r S(d) with u and w of its own (RelativePositions).
/// All start as N(0, 0.02). Source: Dai et al. 2019, Transformer-XL, arXiv:1901.02860.
class RelativeKeys : public torch::nn::Module {
 public:
  /// @param heads  a divisor of dim
  RelativeKeys(std::int64_t dim, std::int64_t heads);

  /// @param distances  S(d) of all distances, as `sinusoids_of_distances` gives them
  RelativePositions forward(const Tensor& distances) const;

 private:
  std::int64_t heads_;
  std::shared_ptr<Linear> places_;       ///< W_r
  Tensor content_bias_, position_bias_;  ///< u and w, [H, D]
};

}  // namespace attnlab
