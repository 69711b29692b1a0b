// Recurrences over a sequence, computed in chunks of tokens instead of one after the other.
//
// A state S [D, Dv] is read by each query after the key at its place: y_t = S_tᵀ q_t.
//
//   gated linear recurrence:  S_t = diag(a_t) S_{t-1} + k_t v_tᵀ
//   gated delta rule:         S_t = (I - β_t k_t k_tᵀ) diag(a_t) S_{t-1} + β_t k_t v_tᵀ
//
// The decay a_t in [0, 1] is one number a head, or one a channel of the keys. Within a chunk
//
//   y_t = S_0ᵀ (A_t ⊙ q_t) + Σ_{j <= t} M_tj u_j,   M_tj = Σ_c q_tc k_jc a_{j+1,c} ... a_tc
//
// with S_0 the state before the chunk and A_t the product of the decays from the chunk's start to
// t. The linear recurrence has u = v. The delta rule writes what its value differs by from what is
// read under its key: u solves the triangular system
//
//   u_t + β_t Σ_{j < t} N_tj u_j = β_t (v_t - S_0ᵀ (A_t ⊙ k_t)),   N as M, with k_t in q_t's place
//
// by forward substitution (the WY form of Yang et al. 2024). One state a chunk then runs through
// the sequence. Products of decays are exponentials of sums of log-decays, in which nothing is
// subtracted: every exponent is at most 0. With one decay per channel, N and M are put together
// from blocks that double: below the diagonal of two neighbours, both sides decay towards the
// border between them.
//
// Rules: causal, the last query stands at the last key; queries before the first key give
// zeros, and so do all queries of an input without keys. An absent key leaves the state as it is.
// Sources: Yang et al. 2023, Gated Linear Attention (2312.06635); Yang et al. 2024, Parallelizing
// Linear Transformers with the Delta Rule over Sequence Length (2406.06484); Yang, Kautz and
// Hatamizadeh 2024, Gated Delta Networks (2412.06464); Kimi Team 2025, Kimi Linear (2510.26692).
// Cost: O(L (D Dv + C (D + Dv))) time, C = 64 tokens a chunk, and O(L (C + D + Dv + D Dv / C))
// memory; log C times as many tensors of the keys' size where decays are of channels.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

/// What both recurrences read; float32 or float64.
struct Recurrence {
  Tensor queries;     ///< [B, H, Lq, D]
  Tensor keys;        ///< [B, H, Lk, D]
  Tensor values;      ///< [B, H, Lk, Dv]
  Tensor log_decays;  ///< log a, at most 0: [B or 1, H, Lk, 1 or D]; undefined: nothing decays
  Tensor key_valid;   ///< [B, Lk] bool, true = present; undefined: all are
  /// [B, H, D, Dv], S before the first key (undefined: zeros), which becomes S behind the last;
  /// null: neither is asked for.
  Tensor* state = nullptr;
};

/// @returns [B, H, Lq, Dv], differentiable any number of times.
Tensor gated_linear(const Recurrence& recurrence);

/// @param betas  β, [B, H, Lk, 1]. With keys no longer than 1 and β in [0, 1] no state grows.
/// @returns as above.
Tensor gated_delta_rule(const Recurrence& recurrence, const Tensor& betas);

/// A layer norm over the last dimension without factors; exactly 0 where that has one number.
Tensor unit_variance(const Tensor& x);

/// x / √(|x|² + 1e-6) of x = SiLU(given): queries and keys of the delta rule as published.
/// @param given  [..., D].
Tensor silu_direction(const Tensor& given);

}  // namespace attnlab
