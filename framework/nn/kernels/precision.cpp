// The precision of products: see the header.
#include "framework/nn/kernels/precision.h"

#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <torch/version.h>

#include <atomic>

#include "framework/base/processor.h"
#include "framework/tensor/narrow.h"

namespace attnlab {
namespace {

std::atomic<Precision> precision = Precision::float32;

/// Multiply-adds of a product below which LibTorch 1.13 does not take the processor's units, and
/// adds up in bfloat16.
constexpr std::int64_t kSmall = 64 * 64 * 64;

/// Whether LibTorch's product of such a size, in bfloat16, adds up in float32.
bool has_wide_sums(const Tensor& a, const Tensor& b) {
  if (!a.device().is_cpu()) return true;
  return a.dim() > 1 && b.dim() > 1 && a.numel() * b.size(-1) >= kSmall &&
         has_bfloat16_products(a.device());
}

/// Tries a product: its sums stall at 256 where they have 8 bits.
bool libtorch_multiplies_bfloat16() {
  const at::NoGradGuard no_gradients;
  const at::DisableRecordFunctionGuard uncounted;
  const Tensor ones = at::ones({64, 512}, at::kBFloat16);
  try {
    return at::mm(ones, ones.t().contiguous()).eq(512).all().item<bool>();
  } catch (const std::exception&) {
    return false;  // oneDNN's: it has no such product
  }
}

}  // namespace

std::string_view name_of(Precision of) {
  constexpr std::string_view kNames[] = {"float32", "tf32", "bfloat16", "float16"};
  return kNames[static_cast<std::size_t>(of)];
}

bool has_bfloat16_products(at::Device device) {
  if (!device.is_cpu()) return true;
#if TORCH_VERSION_MAJOR < 2 && !defined(__x86_64__)
  return false;
#else
  static const bool has = processor_has_bfloat16() && libtorch_multiplies_bfloat16();
  return has;
#endif
}

void use_product_precision(Precision wanted) { precision = wanted; }

Precision product_precision() { return precision; }

bool rounds_to_bfloat16(const Tensor& x) {
  return precision == Precision::bfloat16 && x.scalar_type() == at::kFloat;
}

bool rounds_to_float16(const Tensor& x) {
  return precision == Precision::float16 && x.scalar_type() == at::kFloat;
}

bool rounds_products(const Tensor& x) { return rounds_to_bfloat16(x) || rounds_to_float16(x); }

Tensor rounded_factor(const Tensor& x) {
  return x.to(precision == Precision::float16 ? at::kHalf : at::kBFloat16);
}

bool adds_up_narrow(const Tensor& a, const Tensor& b) {
  if (!is_narrow(a) || a.scalar_type() != b.scalar_type() || !a.device().is_cpu()) return false;
  return a.scalar_type() == at::kHalf || !has_wide_sums(a, b);
}

Tensor product(const Tensor& a, const Tensor& b) {
  if (adds_up_narrow(a, b)) return at::matmul(wide(a), wide(b)).to(a.scalar_type());
  if (!rounds_products(a) || !rounds_products(b)) return at::matmul(a, b);
  const Tensor left = rounded_factor(a), right = rounded_factor(b);
  const bool has_product = !a.device().is_cpu() || rounds_to_bfloat16(a);
  if (has_product && has_wide_sums(a, b)) return at::matmul(left, right).to(at::kFloat);
  return rounded_factor(at::matmul(left.to(at::kFloat), right.to(at::kFloat))).to(at::kFloat);
}

Tensor convolution(const Tensor& x, const Tensor& weight, const Tensor& bias, std::int64_t stride,
                   std::int64_t padding) {
  if (!is_narrow(x) || !x.device().is_cpu()) {
    return at::conv2d(x, weight, bias, stride, padding);
  }
  return at::conv2d(wide(x), wide(weight), wide(bias), stride, padding).to(x.scalar_type());
}

}  // namespace attnlab
