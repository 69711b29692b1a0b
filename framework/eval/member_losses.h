// Cross-entropy of the members of an ensemble: one mean loss for each.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

/// With log p the log-softmax of a row, and s the smoothing:
///   loss[e] = mean over its rows of  -(1 - s) log p[class] - s mean_k(log p[k])
/// @param logits   [E * B, K] floating point, one member's rows after the other's
/// @param classes  [E * B] int64, each in [0, K): not checked here
/// @returns [E], differentiable any number of times.
/// Cost: one pass over float32 logits on the CPU, where LibTorch takes several times that for rows
/// of a few classes; elsewhere LibTorch's loss.
Tensor member_cross_entropy(const Tensor& logits, const Tensor& classes, double label_smoothing,
                            std::int64_t members);

}  // namespace attnlab
