// The loops of sparse convolution: float32 and float64 on the CPU.
//
// A block of output rows adds up in scratch that stays in the first level of cache. For each place
// of the kernel a tile of up to 6 pairs and 2 vectors of columns keeps its sums in registers while
// it walks down the input channels.
#pragma once

#include "framework/nn/points/sparse_convolution.h"

namespace attnlab {

/// y[o] += sum over pairs of W_d^T x[i].
/// @param x       [N, in] contiguous
/// @param packed  `packed_kernel` of it
/// @param y       [N, out] contiguous, filled
void convolve_blocks(const Tensor& x, const Tensor& packed, const KernelMap& map, const Tensor& y);

/// dW[d] = sum over the pairs of d of x[i] (outer) dy[o].
/// @returns [out, places, in]
Tensor kernel_gradient(const Tensor& x, const Tensor& dy, const KernelMap& map);

/// W in panels of two vectors of outputs: [panels, places, in, 2 lanes], padded with zeros.
/// @param kernel    [out, places, in] of any strides
Tensor packed_kernel(const Tensor& kernel);

}  // namespace attnlab
