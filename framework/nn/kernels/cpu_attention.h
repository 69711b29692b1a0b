// Softmax attention on the CPU, a head at a time, while the head's weights are in cache.
//
//   P = softmax(scale * Q K^T),   Y = P V
//
// The same mathematics and precision as matmul, softmax, matmul, without their traffic: heads run
// in parallel (not one after another), strided views of packed projections are read as they lie,
// and the output lies as [B, Lq, H, Dv] so that merging heads moves nothing. Heads whose weights
// fit a core's cache go whole, and keep them for the gradient (small_attention.h); others go block
// by block, and compute them again (block_attention.h), so that memory is linear in the length:
// with masks, places' rules, relative positions, dropout, the terms of logit_terms.h, and weights
// by a rule (row_rule.h). (A bias by pair is as large as all pairs itself; where heads or examples
// share one, its gradient is made for each.) Keys are brought to unit length, and that gradient is
// taken, while they are in cache; dropped weights live no longer than that.
#pragma once

#include "framework/nn/kernels/headwise.h"
#include "framework/nn/kernels/logit_terms.h"

namespace attnlab {

/// Whether `cpu_softmax_attention` takes these: CPU, float32 or float64, nothing empty.
bool cpu_softmax_attention_takes(const Tensor& queries, const Tensor& keys, const Tensor& values);

/// What softmax attention is asked for besides queries, keys and values.
struct SoftmaxQuestion {
  Tensor pairs = {};  ///< bool, broadcastable to [B, H, Lq, Lk], true = may see; undefined: all may
  Tensor key_valid = {};  ///< bool [B, Lk], true = a real key; undefined: all are
  PlaceRules rules = {};  ///< what is hidden besides, without a tensor of pairs
  double scale = 1;
  UnitKeys unit_keys = {};  ///< K is to have rows of unit length, with this floor of their norms
  /// Probability of dropping a weight; the same ones as `dropout` of the weights [B, H, Lq, Lk] at
  /// this place would.
  double dropout = 0;
  Tensor bias = {};  ///< broadcastable to [B, H, Lq, Lk], added to scaled logits; undefined: none
  /// Relative positions: query i and key j have the logit scale <a_i, r_(Lq - 1 - i + j)> more.
  Tensor relative_queries = {};  ///< a, [B, H, Lq, D]; undefined: none
  Tensor relative_keys = {};     ///< r, [B or 1, H, Lq + Lk - 1, D]
  LogitTerms terms = {};         ///< besides; of the queries' dtype, as all here
  RowWeights each = {};  ///< a rule in place of softmax; its terms have no sink and no signs
};

/// @param queries  [B, H, Lq, D]
/// @param keys     [B, H, Lk, D]
/// @param values   [B, H, Lk, Dv]
/// @returns [B, H, Lq, Dv], differentiable any number of times (beyond the first by composed
/// operations, with tensors [B, H, Lq, Lk]). A row that sees nothing gives zeros.
/// @throws ShapeError when the dropout is outside [0, 1).
Tensor cpu_softmax_attention(const Tensor& queries, const Tensor& keys, const Tensor& values,
                             const SoftmaxQuestion& question);

/// What goes into the logits of softmax attention besides <q, k>, as composed operations take it.
struct ComposedLogits {
  double scale = 1;
  /// bool, broadcastable to [B, H, Lq, Lk], true = may not see; undefined: all may.
  Tensor hidden = {};
  Tensor factors = {};  ///< [B, H, Lq, Lk], what dropout multiplied the weights by; undefined: none
  Tensor bias = {}, relative_queries = {}, relative_keys = {};  ///< as in SoftmaxQuestion
};

/// Gradients; undefined for what there was not.
struct ComposedGradients {
  Tensor q = {}, k = {}, v = {}, bias = {}, relative_queries = {}, relative_keys = {};
};

/// The gradients of softmax attention, as operations that autograd can follow: what kernels use
/// for gradients of gradients.
/// @param grad    [B, H, Lq, Dv], of the output.
ComposedGradients composed_softmax_gradients(const Tensor& queries, const Tensor& keys,
                                             const Tensor& values, const Tensor& grad,
                                             const ComposedLogits& logits);

/// The same for a problem with neither pairs, valid keys, bias nor relative positions.
/// @param queries, keys, values  those of the problem, with their graphs
ComposedGradients composed_headwise_gradients(const HeadwiseProblem& problem, const Tensor& queries,
                                              const Tensor& keys, const Tensor& values,
                                              const Tensor& grad);

}  // namespace attnlab
