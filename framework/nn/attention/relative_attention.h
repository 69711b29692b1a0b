// Causal softmax attention with relative positions on the CPU, a head at a time.
//
//   P_ij = softmax over j <= i of scale (q_i . k_j + p_i . r_{i-j}),   Y = P V
//
// (places count from the end: the last query stands at the last key). Everything of a head, the
// shift from distances to keys included, is done while it is in a core's cache; as composed
// operations it is eight passes over [B, H, Lq, Lk], and a product a head where there is no batched
// one. P is kept for the gradient.
// Source of the form: Dai et al., Transformer-XL, ACL 2019. Cost: O(B H Lq Lk (2 D + Dv)).
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

struct RelativeHeads {
  Tensor queries;    ///< q, [B, H, Lq, D]
  Tensor places;     ///< p, [B, H, Lq, D]
  Tensor keys;       ///< k, [B, H, Lk, D], Lk >= Lq
  Tensor distances;  ///< r, [H, Lq + Lk - 1, D], as RelativePositions::keys
  Tensor values;     ///< [B, H, Lk, Dv]
};

/// Whether this kernel takes these: float32 on the CPU, no fewer keys than queries, none empty.
bool relative_attention_takes(const Tensor& queries, const Tensor& keys, const Tensor& values);

/// @param window  above 0: queries see keys less than this far away
/// @returns [B, H, Lq, Dv], differentiable any number of times (beyond the first by composed
/// operations).
Tensor relative_attention(const RelativeHeads& heads, double scale, std::int64_t window);

}  // namespace attnlab
