// What stands before, between and after two rounded products on the CPU, in one pass each:
// functions and sums are of float32, and only bfloat16 goes through memory.
#pragma once

#include "framework/nn/kernels/mlp.h"
#include "framework/tensor/tensor.h"

namespace attnlab {

/// A float32 tensor as a dense matrix in bfloat16, rounded to the nearest, ties to even.
/// @param sums  [n], filled with the sums of columns before they are rounded; undefined: not asked
/// for. They may depend on the number of threads, not on which is faster.
Tensor rounded(const Tensor& x, const Tensor& sums = {});

/// A matrix in bfloat16 plus the bias, in float32. @param bias  [n], of no elements or undefined:
/// none
Tensor widened(const Tensor& x, const Tensor& bias, at::IntArrayRef sizes);

/// act(h + bias) of a matrix in bfloat16, rounded. @param in_place  whether h becomes the result
Tensor activated(Activation activation, const Tensor& h, const Tensor& bias, bool in_place);

/// The gradient by h, rounded, in place of the one by act(h + bias). @param sums  as in rounded()
void deactivate(Activation activation, const Tensor& h, const Tensor& bias, const Tensor& grad,
                const Tensor& sums);

}  // namespace attnlab
