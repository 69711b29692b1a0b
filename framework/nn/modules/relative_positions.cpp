#include "framework/nn/modules/relative_positions.h"

#include <cmath>

namespace attnlab {

Tensor sinusoids(const Tensor& places, std::int64_t dim, const at::TensorOptions& options) {
  const at::TensorOptions exact = at::TensorOptions().dtype(at::kDouble);
  const Tensor rates =
      at::exp(at::arange(0, dim, 2, exact) * (-std::log(10000.0) / static_cast<double>(dim)));
  const Tensor angles = places.to(at::kCPU, at::kDouble).unsqueeze(1) * rates;
  return at::cat({angles.sin(), angles.cos()}, 1).to(options.requires_grad(false));
}

}  // namespace attnlab
