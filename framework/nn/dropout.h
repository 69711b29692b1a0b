// Dropout whose mask is never stored.
//
//   y_i = x_i [h(key, i) >= p] / (1 - p),   h uniform in [0, 1), a hash of the key and the place
//
// The key is one draw of LibTorch's default generator, so a seed still decides everything, and the
// number of threads nothing. Against at::dropout, whose numbers come one after another from one
// generator: several times faster on the CPU, no tensor of noise, and other masks for one seed.
// Source: Srivastava et al., JMLR 2014; the mixing is lowbias32 of Chris Wellons' hash-prospector.
// Cost: one pass forward, one backward, both in vector registers.
#pragma once

#include "framework/nn/tensor.h"

namespace attnlab {

/// Zeroes numbers with probability p and divides the others by 1 - p. Differentiable any number of
/// times. Not on the CPU, or for half precision, it is at::dropout.
/// @param x  floating point
/// @throws ShapeError when p is outside [0, 1).
Tensor dropout(const Tensor& x, double p);

}  // namespace attnlab
