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

Tensor by_key(const Tensor& x, std::int64_t keys) {
  const std::int64_t batch = x.size(0), heads = x.size(1), queries = x.size(2), all = x.size(3);
  if (queries == 1) return x;
  // Row i starts at Lq - 1 - i: in the flat matrix, one column less than a row further on.
  return x.reshape({batch, heads, queries * all})
      .narrow(2, queries - 1, queries * (all - 1))
      .view({batch, heads, queries, all - 1})
      .narrow(3, 0, keys);
}

}  // namespace attnlab
