// Attention without a softmax, at linear cost.
//
//   Y_i = sum_j<visible to i> (q_i . k_j) v_j = q_i S_i,   S_i = sum_j<visible to i> k_j v_jᵀ
//
// Without the causal rule S is the same for all queries. With it, S_i runs along the sequence:
// chunks of keys add up to one state [D, Dv] before each chunk, and within a chunk the quadratic
// form with a mask does the rest. Cost: O((Lq + Lk) D Dv) time and, with chunks as long as D,
// O((Lq + Lk)(D + Dv)) memory.
// Source: Katharopoulos et al. 2020; the chunks are those of Hua et al. 2022 (FLASH).
#pragma once

#include "framework/contracts/attention.h"

namespace attnlab {

/// @param queries  [B, H, Lq, D] floating point
/// @param keys     [B, H, Lk, D]
/// @param values   [B, H, Lk, Dv]; a column of ones gives the sum of the weights beside the rest
/// @param visible  the causal rule (the last query stands at the last key) and key_valid count;
///                 query_valid is not read
/// @returns [B, H, Lq, Dv], of the queries' dtype or float32, whichever is wider: sums over a long
/// sequence need more than 8 bits. A query that sees nothing gives zeros. Differentiable any number
/// of times.
/// @throws ShapeError for a window, a pair mask or a ragged batch.
Tensor linear_sums(const Tensor& queries, const Tensor& keys, const Tensor& values,
                   const Visibility& visible);

/// The same for tokens behind others, under the causal rule: as many queries as keys.
/// @param state  [B, H, D, Dv], the sum of k vᵀ over the keys before (undefined: there are none),
/// which
///               becomes the sum over these keys, too
Tensor linear_sums_behind(const Tensor& queries, const Tensor& keys, const Tensor& values,
                          Tensor& state);

/// `values` and a column of ones behind them: [B, H, L, Dv + 1].
Tensor with_ones(const Tensor& values);

/// elu(x) + 1, that is exp(min(x, 0)) + max(x, 0), without elu's loss of digits near -1.
Tensor elu_plus_one(const Tensor& x);

/// How many of `keys` (1 or more) each query sees, under the same rules.
/// @returns [B or 1, 1, Lq or 1, 1] int64 on `device`.
Tensor visible_counts(const Visibility& visible, std::int64_t queries, std::int64_t keys,
                      const at::Device& device);

}  // namespace attnlab
