#include "framework/nn/kernels/relative_shift.h"

namespace attnlab {

// Row i starts at Lq - 1 - i: in the flat matrix, one column less than a row further on.

Tensor shift_distances(const Tensor& x, std::int64_t keys) {
  const std::int64_t batch = x.size(0), heads = x.size(1), queries = x.size(2), all = x.size(3);
  if (queries == 1) return x;
  return x.reshape({batch, heads, queries * all})
      .narrow(2, queries - 1, queries * (all - 1))
      .view({batch, heads, queries, all - 1})
      .narrow(3, 0, keys);
}

Tensor unshift_distances(const Tensor& x) {
  const std::int64_t batch = x.size(0), heads = x.size(1), queries = x.size(2);
  const std::int64_t all = queries + x.size(3) - 1;
  if (queries == 1) return x;
  const Tensor flat = at::constant_pad_nd(x, {0, queries - 2}).reshape({batch, heads, -1});
  return at::constant_pad_nd(flat, {queries - 1, 1}).view({batch, heads, queries, all});
}

}  // namespace attnlab
