#include "framework/nn/kernels/headwise.h"

#include "framework/base/processor.h"
#include "framework/nn/kernels/precision.h"

namespace attnlab {

bool has_rounded_heads() {
#if defined(__x86_64__)
  static const bool has = processor_has_bfloat16();
  return has;
#else
  return false;
#endif
}

bool rounds_heads(const Tensor& queries) {
  return queries.device().is_cpu() && rounds_to_bfloat16(queries) && has_rounded_heads();
}

Tensor rows_dense(const Tensor& x) {
  const bool dense = x.stride(3) == 1 && x.stride(2) >= x.size(3);
  return (dense ? x : x.contiguous()).detach();
}

Tensor empty_by_token(const Tensor& like, std::int64_t length, std::int64_t channels) {
  if (like.stride(1) > like.stride(0) && like.stride(0) >= like.stride(2)) {
    return at::empty({like.size(1), like.size(0), length, channels}, like.options())
        .transpose(0, 1);
  }
  return at::empty({like.size(0), length, like.size(1), channels}, like.options()).transpose(1, 2);
}

Tensor room_for_inverse(const Tensor& k, const UnitKeys& unit) {
  return unit ? at::empty({k.size(0), k.size(1), k.size(2), 1}, k.options()) : Tensor();
}

}  // namespace attnlab
