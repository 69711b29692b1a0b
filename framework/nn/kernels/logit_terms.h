// What a mechanism does to its logits beside products, maps and a scale, and to softmax's weights.
//
//   l_ij = cap tanh(s_ij / cap) + bias_ij + t_(Lq - 1 - i + j) + (a_i - b_j)
//   w_ij = e^l_ij / (e^sink + sum_j e^l_ij),   or sign(l_ij) times that of |l|
//
// s are the scaled products, with those of relative positions; each term is there where it is
// given. The kernel of block_attention.h takes all of them, in memory that is linear in the length
// but for a bias by pair; the operations here are its explicit form and its second derivative.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

struct LogitTerms {
  double cap = 0;    ///< of scaled products; 0: none
  Tensor bias = {};  ///< [B or 1, H or 1, Lq or 1, Lk or 1]
  /// t, [B or 1, H, Lq + Lk - 1], a bias by distance: that of ALiBi, of T5's table.
  Tensor distance_bias = {};
  /// a and b, [B or 1, H, Lq] and [B or 1, H, Lk], both or neither: differences of sums along the
  /// sequence.
  Tensor query_sums = {}, key_sums = {};
  Tensor sink = {};    ///< [H], or [1] for all heads: a logit without key or value; softmax's alone
  bool signs = false;  ///< weights have their logits' signs, 0 within 1e-5; softmax's alone

  bool any() const { return cap > 0 || signs || sink.defined() || adds(); }
  /// Whether something is added to the logits.
  bool adds() const;
  /// All that is added, broadcastable to [B, H, Lq, Lk]; undefined: nothing. @param keys  Lk
  Tensor added(std::int64_t keys) const;
};

/// cap tanh(x / cap)
Tensor capped(const Tensor& logits, double cap);

/// The weights of softmax with sink and signs.
/// @param logits  [B, H, Lq, Lk], complete
/// @param hidden  bool, broadcastable to them, true = may not see; undefined: all may
Tensor softmax_with(const LogitTerms& terms, const Tensor& logits, const Tensor& hidden);

/// a + b, of which each may be undefined.
Tensor sum_of_given(const Tensor& a, const Tensor& b);

}  // namespace attnlab
