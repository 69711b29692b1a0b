// Softmax attention on the CPU, a head at a time, while the head's weights are in cache.
//
//   P = softmax(scale * Q K^T),   Y = P V
//
// The same mathematics and precision as matmul, softmax, matmul, without their traffic: heads run
// in parallel (not one after another), strided views of packed projections are read as they lie,
// and the output lies as [B, Lq, H, Dv] so that merging heads moves nothing. Heads whose weights
// fit a core's cache go whole, and keep them for the gradient (small_attention.h); others go block
// by block, and compute them again (block_attention.h), so that memory is linear in the length.
// Keys are brought to unit length, and that gradient is taken, while they are in cache; dropped
// weights live no longer than that.
#pragma once

#include <array>

#include "framework/nn/kernels/headwise.h"

namespace attnlab {

/// Whether `cpu_softmax_attention` takes these: CPU, float32 or float64, nothing empty.
bool cpu_softmax_attention_takes(const Tensor& queries, const Tensor& keys, const Tensor& values);

/// @param queries  [B, H, Lq, D]
/// @param keys     [B, H, Lk, D]
/// @param values   [B, H, Lk, Dv]
/// @param visible  bool, broadcastable to [B, H, Lq, Lk], true = may see; undefined = all may.
///                 A row that sees nothing gives zeros.
/// @param unit_keys  K is to have rows of unit length, with this floor of their norms; empty: K as
///                   it is.
/// @param dropout    probability of dropping a weight; the same ones as `dropout` of the weights
///                   [B, H, Lq, Lk] at this place would.
/// @param rules      what is hidden besides, without a tensor of pairs
/// @returns [B, H, Lq, Dv], differentiable any number of times (beyond the first by composed
/// operations).
/// @throws ShapeError when `dropout` is outside [0, 1).
Tensor cpu_softmax_attention(const Tensor& queries, const Tensor& keys, const Tensor& values,
                             const Tensor& visible, double scale, UnitKeys unit_keys = {},
                             double dropout = 0, const PlaceRules& rules = {});

/// The gradients of softmax attention's queries, keys and values, as operations that autograd can
/// follow: what kernels use for gradients of gradients.
/// @param hidden  bool, broadcastable to [B, H, Lq, Lk], true = may not see; undefined = all may.
/// @param grad    [B, H, Lq, Dv], of the output.
/// @param factors  [B, H, Lq, Lk], what dropout multiplied the weights by; undefined = nothing.
std::array<Tensor, 3> composed_softmax_gradients(const Tensor& queries, const Tensor& keys,
                                                 const Tensor& values, const Tensor& hidden,
                                                 const Tensor& grad, double scale,
                                                 const Tensor& factors = {});

}  // namespace attnlab
