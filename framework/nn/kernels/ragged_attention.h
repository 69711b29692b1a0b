// Softmax attention over sequences that lie end to end, each of which sees itself alone.
//
//   P_t = softmax(scale * Q_t K_t^T),   Y_t = P_t V_t   for every sequence t
//
// What `cpu_softmax_attention` gives for each by itself, to the last bit, as one operation: no
// tensor is made for a sequence, none is cut out or put together, and threads share the pairs of
// all.
#pragma once

#include "framework/nn/kernels/headwise.h"

namespace attnlab {

struct RaggedQuestion {
  Tensor query_offsets, key_offsets;  ///< int64 [T + 1] on the CPU: where each sequence begins
  PlaceRules rules = {};              ///< of each sequence by itself
  double scale = 1;
  UnitKeys unit_keys = {};
  double dropout = 0;  ///< probability of dropping a weight; drawn for one sequence after the other
};

/// @param queries  [1, H, Lq, D], float32 or float64 on the CPU
/// @param keys     [1, H, Lk, D]
/// @param values   [1, H, Lk, Dv]
/// @returns [1, H, Lq, Dv], differentiable any number of times (beyond the first by composed
/// operations). Queries of a sequence without keys give zeros.
/// @throws ShapeError when the dropout is outside [0, 1).
Tensor cpu_ragged_attention(const Tensor& queries, const Tensor& keys, const Tensor& values,
                            const RaggedQuestion& question);

}  // namespace attnlab
