// Softmax attention of small heads on the CPU: loops instead of matrix products of a library.
//
//   P = softmax(scale * Q K̄^T),   Y = drop(P) V,   K̄ = K, or K with rows of unit length
//
// What a library's product does before it begins costs more than the product of a head of ten
// tokens, and still a fifth of one of a hundred. Here a head costs nothing but its numbers: no
// tensor, no allocation; everything of a head lies in one piece of scratch, in a core's cache.
// Cost: O(B H Lq Lk (D + Dv)) time; P is kept for the gradient.
#pragma once

#include "framework/nn/kernels/headwise.h"

namespace attnlab {

/// Whether heads of these sizes are faster here. By measurement; the same for any layout.
bool heads_are_small(const HeadwiseProblem& in);

/// Uninitialised weights [B * H, Lq, Lk, padded] of small heads.
Tensor room_for_small_weights(const HeadwiseProblem& in);

/// @param weights  of `room_for_small_weights`, filled with P; undefined: not wanted
/// @param out      [B, H, Lq, Dv], filled; the numbers of a row are neighbours, here and below
void attend_small_heads(const HeadwiseProblem& in, const Tensor& weights, const Tensor& out);

/// Where K was brought to unit length, dk is the gradient of what it was before.
/// @param weights     what `attend_small_heads` left there
/// @param grad        [B, H, Lq, Dv], the numbers of a row are neighbours
/// @param dq, dk, dv  [B, H, L, C], filled
void differentiate_small_heads(const HeadwiseProblem& in, const Tensor& weights, const Tensor& grad,
                               const Tensor& dq, const Tensor& dk, const Tensor& dv);

}  // namespace attnlab
