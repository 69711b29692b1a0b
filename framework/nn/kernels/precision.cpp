// The precision of products: see the header.
#include "framework/nn/kernels/precision.h"

#include <torch/version.h>

#include <atomic>

#include "framework/base/processor.h"

namespace attnlab {
namespace {

std::atomic<Precision> precision = Precision::float32;

/// Multiply-adds of a product below which LibTorch 1.13 does not take the processor's units, and
/// adds up in bfloat16.
constexpr std::int64_t kSmall = 64 * 64 * 64;

Tensor narrow(const Tensor& x) { return x.to(at::kBFloat16); }

}  // namespace

std::string_view name_of(Precision of) {
  return of == Precision::bfloat16 ? "bfloat16" : "float32";
}

bool has_bfloat16_products(at::Device device) {
  if (!device.is_cpu()) return true;
#if TORCH_VERSION_MAJOR < 2 && !defined(__x86_64__)
  return false;
#else
  static const bool has = processor_has_bfloat16();
  return has;
#endif
}

void use_product_precision(Precision wanted) { precision = wanted; }

Precision product_precision() { return precision; }

bool rounds_products(const Tensor& x) {
  return precision == Precision::bfloat16 && x.scalar_type() == at::kFloat;
}

Tensor product(const Tensor& a, const Tensor& b) {
  if (!rounds_products(a) || !rounds_products(b)) return at::matmul(a, b);
  const bool small = a.device().is_cpu() && a.numel() * b.size(-1) < kSmall;
  if (!small && has_bfloat16_products(a.device())) {
    return at::matmul(narrow(a), narrow(b)).to(at::kFloat);
  }
  return narrow(at::matmul(narrow(a).to(at::kFloat), narrow(b).to(at::kFloat))).to(at::kFloat);
}

}  // namespace attnlab
