// Numbers of 16 bits. What adds up many of them does so in float32 and rounds its result once:
// LibTorch adds up in 16 bits itself in small products, by index and by segments, and on processors
// without bfloat16 in all products.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

inline bool is_narrow(at::ScalarType dtype) { return dtype == at::kHalf || dtype == at::kBFloat16; }

/// Whether its numbers are of 16 bits: float16 or bfloat16.
inline bool is_narrow(const Tensor& x) { return is_narrow(x.scalar_type()); }

/// float32 of such a tensor, with a graph; any other as it is, an undefined one, too.
inline Tensor wide(const Tensor& x) { return is_narrow(x) ? x.to(at::kFloat) : x; }

}  // namespace attnlab
