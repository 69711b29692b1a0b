// Nearest neighbours by cosine, and what they vote for.
//
//   s_j = q . x_j (rows of length 1),   votes(c) = sum over the k largest s_j of class c of
//   exp(s_j / temperature)
//
// Equal similarities count in order of their index. Source: Wu et al., Unsupervised feature
// learning via non-parametric instance discrimination, CVPR 2018; the rule of DINO's and iBOT's
// code.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

struct Neighbours {
  Tensor similarity;  ///< [B, k] float32, falling
  Tensor index;       ///< [B, k] int64, rows of the bank
};

/// The k rows of a bank with the largest products with each query. Cost: B N C, and no more room
/// than 8192 rows of the bank take.
/// @param queries  [B, C] float32
/// @param bank     [N, C] float32 on the same device, k <= N
/// @returns on the CPU.
/// @throws ShapeError.
Neighbours nearest(const Tensor& queries, const Tensor& bank, std::int64_t k);

/// @param bank_classes  [N] int64 on the CPU
/// @param k             of the neighbours, the nearest
/// @returns [B, classes] float64 on the CPU.
Tensor votes_of(const Neighbours& neighbours, const Tensor& bank_classes, std::int64_t k,
                double temperature, std::int64_t classes);

}  // namespace attnlab
