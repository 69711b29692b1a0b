// Softmax attention of long sequences on the CPU, block by block: memory linear in the length.
//
//   P = softmax(scale * Q K̄^T),   Y = drop(P) V,   K̄ = K, or K with rows of unit length
//
// with a bias, relative positions and the terms of logit_terms.h, where there are some; or with
// weights by a rule (row_rule.h) in place of P.
//
// Logits are made for a block of queries and a block of keys at a time and never kept. Forward,
// each row's largest logit so far and the sum of its exponentials are kept; where a block brings a
// larger one, what was gathered shrinks. Backward, weights are computed again from those two
// numbers. Blocks that no query of theirs sees are not computed at all.
// Source: FlashAttention-2, Dao 2023; the online softmax is Milakov and Gimelshein's, 2018.
// Cost: O(B H Lq Lk (D + Dv)) time; memory beyond inputs and outputs O(B H Lq) kept for the
// gradient, and O((Lq + Lk) (D + Dv)) a thread. What is added to logits by query, by key or by
// distance has a gradient of its own size; a bias by pair one [B, H, Lq, Lk].
#pragma once

#include "framework/nn/kernels/headwise.h"

namespace attnlab {

/// @param out  [B, H, Lq, Dv], filled; the numbers of a row are neighbours, here and below
/// @returns what `differentiate_blocks` needs: [B * H, Lq, 2], each row's largest logit and one
/// over the sum of exponentials; of rows that see nothing 0 and 0.
Tensor attend_blocks(const HeadwiseProblem& in, const Tensor& out);

/// Where K was brought to unit length, dk is the gradient of what it was before. Sums do not depend
/// on which thread is faster, yet they may on the number of threads.
/// @param rows  what `attend_blocks` returned
/// @param out   what `attend_blocks` filled
/// @param grad  [B, H, Lq, Dv], of `out`
void differentiate_blocks(const HeadwiseProblem& in, const Tensor& rows, const Tensor& out,
                          const Tensor& grad, const HeadGradients& to);

}  // namespace attnlab
