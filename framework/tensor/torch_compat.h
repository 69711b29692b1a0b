// Everything that differs between LibTorch versions (1.13 to 2.14), and nothing else.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <torch/version.h>

#define ATTNLAB_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) ||          \
   (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

namespace attnlab::compat {

/// Whether LibTorch brings fused softmax attention with a free choice of scale (from 2.1 on).
inline constexpr bool kHasFusedAttention = ATTNLAB_TORCH_AT_LEAST(2, 1);

/// softmax(scale * Q K^T + mask) V by LibTorch's fused kernels; only where `kHasFusedAttention`.
/// @param mask  undefined; bool, true = may see; or of the queries' dtype, added to the logits.
///              Every row must see a key: before 2.5 an empty row gives NaN.
/// @param causal  needs as many queries as keys and an undefined mask.
inline at::Tensor fused_attention(const at::Tensor& queries, const at::Tensor& keys,
                                  const at::Tensor& values, const at::Tensor& mask, double dropout,
                                  bool causal, double scale) {
#if ATTNLAB_TORCH_AT_LEAST(2, 1)
  if (!mask.defined()) {
    return at::scaled_dot_product_attention(queries, keys, values, {}, dropout, causal, scale);
  }
  return at::scaled_dot_product_attention(queries, keys, values, mask, dropout, causal, scale);
#else
  (void)queries, (void)keys, (void)values, (void)mask, (void)dropout, (void)causal, (void)scale;
  TORCH_CHECK(false, "this LibTorch has no fused attention");
#endif
}

template <class Report>
struct TotalOf;
template <class Total>
struct TotalOf<void (c10::MemoryReportingInfoBase::*)(void*, std::int64_t, Total, Total,
                                                      c10::Device)> {
  using type = Total;
};
/// How memory reports count whole pools: int64_t in 1.13, size_t later.
using MemoryTotal = TotalOf<decltype(&c10::MemoryReportingInfoBase::reportMemoryUsage)>::type;

}  // namespace attnlab::compat
