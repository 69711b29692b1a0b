// Products by oneDNN: see the header.
#include "framework/nn/kernels/large_product.h"

#ifdef ATTNLAB_ONEDNN
#include <dnnl.h>
#include <fmt/format.h>

#include "framework/base/error.h"
#endif

namespace attnlab {

#ifdef ATTNLAB_ONEDNN
bool has_large_products() { return true; }

void large_product(const DenseFactor& a, const DenseFactor& b, float* c, std::int64_t rows,
                   std::int64_t depth, std::int64_t columns, bool add) {
  const dnnl_status_t ended =
      dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', rows, columns, depth, 1,
                 a.data, a.row, b.data, b.row, add ? 1.F : 0.F, c, columns);
  if (ended == dnnl_success) return;
  throw Error(fmt::format("oneDNN did not compute a product of matrices (status {})", int{ended}));
}
#else
bool has_large_products() { return false; }

void large_product(const DenseFactor&, const DenseFactor&, float*, std::int64_t, std::int64_t,
                   std::int64_t, bool) {}
#endif

}  // namespace attnlab
