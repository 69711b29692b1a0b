// Heads of self-distillation: a token to a point on the unit sphere, and its likeness to K
// prototypes.
//
//   z = W_3 gelu(W_2 gelu(W_1 x)), of unit length                               ProjectionHead
//   w_k = g_k v_k / |v_k|                                                       Prototypes
//   unit: g = 1 always      free: g is learned, from 1 on      vmf: free, and normalised as below
//
//   student   log softmax_k(w_k z / t [+ log C(|w_k| / t)])
//   teacher   unit, free: softmax_k((w_k z - c_k) / t),              c: mean of w_k z over tokens
//             vmf:        softmax_k(w_k z / t + log C(|w_k| / t) - c_k),
//                                                 c: log of the mean over tokens of the softmax
//                                                    without c
//
// vmf: each prototype is a von Mises-Fisher distribution of direction w_k and concentration
// |w_k| / t on the sphere in p dimensions. log C is the logarithm of its normaliser, here by the
// expansion of Bessel functions for large orders n = p / 2 - 1, first term (an error below 1/12n),
// without what is equal for all:
//   log C(k) = n log(n + r) - r + log(r) / 2,  r = sqrt(n^2 + k^2)
//
// Source: Caron et al., DINO, ICCV 2021, and Zhou et al., iBOT, ICLR 2022, with their public code;
// vmf: Govindarajan et al., DINO as a von Mises-Fisher mixture model, ICLR 2023, arXiv:2405.10939;
// the expansion: NIST Handbook of Mathematical Functions, 10.41.
#pragma once

#include "framework/nn/modules/layers.h"

namespace attnlab {

class ProjectionHead : public torch::nn::Module {
 public:
  ProjectionHead(std::int64_t width, std::int64_t hidden, std::int64_t out);
  /// [..., width] to [..., out], of unit length.
  Tensor forward(const Tensor& x) const;

 private:
  std::shared_ptr<Linear> first_, second_, third_;
};

/// As said above. @param concentration  0 or more, any shape   @param dimensions  p, at least 4
Tensor vmf_log_normaliser(const Tensor& concentration, std::int64_t dimensions);

class Prototypes : public torch::nn::Module {
 public:
  enum class Kind { unit, free, vmf };

  Prototypes(std::int64_t dimensions, std::int64_t count, Kind kind);

  std::int64_t count() const { return directions_.size(0); }
  /// @param z  [R, p]   @returns [R, K], of which a softmax is taken.
  Tensor student(const Tensor& z, double temperature) const;
  /// @param centre  [K]   @returns [R, K], rows add up to 1.
  Tensor teacher(const Tensor& z, double temperature, const Tensor& centre) const;
  /// What the centre is of, added up over tokens: [K] float64. (vmf: of the softmax without c.)
  Tensor sum_of(const Tensor& z, double temperature) const;
  /// The centre of so many tokens alone. @param sum  of `sum_of`, or several added up
  Tensor centre_of(const Tensor& sum, double tokens) const;

 private:
  /// w, [K, p].
  Tensor weights() const;
  /// log C(|w| / t), [K].
  Tensor log_normaliser(double temperature) const;

  Kind kind_;
  Tensor directions_;  ///< v, [K, p]
  Tensor norms_;       ///< g, [K, 1]; undefined: 1
};

}  // namespace attnlab
