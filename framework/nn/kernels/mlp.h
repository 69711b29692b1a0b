// Two linear maps with an activation between, block of rows by block of rows.
//
//   H = X U^T + a,   G = act(H),   Y = G D^T + b
//
// A block of G is read by the second map while it is in a core's cache; backward, dG becomes dH and
// dX likewise. As operations one by one, H, G and their gradients go through memory each time.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

enum class Activation { gelu, relu, gelu_tanh };  ///< GELUs: gelu.h

struct MlpWeights {
  const Tensor &up, &up_bias;      ///< U [hidden, in], a [hidden]; biases undefined: none
  const Tensor &down, &down_bias;  ///< D [out, hidden], b [out]
};

/// Whether there is a kernel for these: large enough, float32 on the CPU; of products in float32,
/// in an attnlab that was built with oneDNN's headers; of products in bfloat16, where the processor
/// has them.
bool mlp_takes(const Tensor& x, const MlpWeights& weights);

/// @param x           [..., in] that mlp_takes()
/// @param activation  gelu or relu
/// @returns [..., out], differentiable any number of times. Sums of the gradients may depend on the
/// number of threads, not on which is faster.
Tensor mlp(const Tensor& x, const MlpWeights& weights, Activation activation);

}  // namespace attnlab
