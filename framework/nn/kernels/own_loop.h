// Which tensors the loops over rows serve; others go through LibTorch's operators.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

inline bool has_own_loop(const Tensor& x) {
  return x.device().is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble);
}

}  // namespace attnlab
