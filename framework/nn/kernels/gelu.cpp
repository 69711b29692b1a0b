// GELU: see the header.
#include "framework/nn/kernels/gelu.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "framework/tensor/narrow.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/nn/kernels/gelu.cpp"
#include "framework/nn/kernels/dispatch-inl.h"
// (Above: before the vectors.)
#include "framework/nn/kernels/gelu-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

void gelu_of_floats(const float* x, float* y, std::int64_t n) {
  each_vector<float>(n, [&](std::int64_t i, auto part) HWY_ATTR {
    const Vec<float> at = load(x + i, part);
    store<float>(hn::Mul(at, normal_at(at).below), y + i, part);
  });
}

void gelu_gradient_of_floats(const float* x, const float* dy, float* dx, std::int64_t n) {
  each_vector<float>(n, [&](std::int64_t i, auto part) HWY_ATTR {
    const Vec<float> at = load(x + i, part);
    store<float>(hn::Mul(load(dy + i, part), slope_at(at, normal_at(at))), dx + i, part);
  });
}

void gelu_and_slope_of_floats(const float* x, float* y, float* slope, std::int64_t n) {
  each_vector<float>(n, [&](std::int64_t i, auto part) HWY_ATTR {
    const Vec<float> at = load(x + i, part);
    const Normal normal = normal_at(at);
    store<float>(hn::Mul(at, normal.below), y + i, part);
    store<float>(slope_at(at, normal), slope + i, part);
  });
}

void multiply_floats(const float* factors, float* x, std::int64_t n) {
  each_vector<float>(n, [&](std::int64_t i, auto part) HWY_ATTR {
    store<float>(hn::Mul(load(factors + i, part), load(x + i, part)), x + i, part);
  });
}

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnlab {
namespace {

HWY_EXPORT(gelu_of_floats);
HWY_EXPORT(gelu_gradient_of_floats);
HWY_EXPORT(gelu_and_slope_of_floats);
HWY_EXPORT(multiply_floats);

}  // namespace

void rows::gelu(const float* x, float* y, std::int64_t n) {
  ATTNLAB_DISPATCH(gelu_of_floats)(x, y, n);
}

void rows::gelu_gradient(const float* x, const float* dy, float* dx, std::int64_t n) {
  ATTNLAB_DISPATCH(gelu_gradient_of_floats)(x, dy, dx, n);
}

void rows::gelu_and_slope(const float* x, float* y, float* slope, std::int64_t n) {
  ATTNLAB_DISPATCH(gelu_and_slope_of_floats)(x, y, slope, n);
}

void rows::multiply(const float* factors, float* x, std::int64_t n) {
  ATTNLAB_DISPATCH(multiply_floats)(factors, x, n);
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Numbers below which a thread is not worth waking.
constexpr std::int64_t kThreadWork = 16 * 1024;

/// @param x  contiguous
Tensor gelu_form(const Tensor& x) {
  Tensor y = at::empty(x.sizes(), x.options().requires_grad(false));
  const float* const from = x.data_ptr<float>();
  float* const to = y.data_ptr<float>();
  at::parallel_for(0, x.numel(), kThreadWork, [&](std::int64_t begin, std::int64_t end) {
    rows::gelu(from + begin, to + begin, end - begin);
  });
  return y;
}

struct Gelu : public torch::autograd::Function<Gelu> {
  static Tensor forward(AutogradContext* context, const Tensor& given) {
    context->save_for_backward({given});  // itself: a copy would have no graph
    return gelu_form(given.contiguous());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Tensor given = context->get_saved_variables()[0];
    // With gradients on, the caller asked for a graph of this backward pass.
    if (at::GradMode::is_enabled()) return {composed_gelu_gradient(given, gradients[0])};
    const Tensor x = given.contiguous(), dy = gradients[0].contiguous();
    Tensor dx = at::empty(x.sizes(), x.options().requires_grad(false));
    const float *const at = x.data_ptr<float>(), *const from = dy.data_ptr<float>();
    float* const to = dx.data_ptr<float>();
    at::parallel_for(0, x.numel(), kThreadWork, [&](std::int64_t begin, std::int64_t end) {
      rows::gelu_gradient(at + begin, from + begin, to + begin, end - begin);
    });
    return {dx};
  }
};

}  // namespace

Tensor composed_gelu_gradient(const Tensor& x, const Tensor& grad) {
  const Tensor below = (x * M_SQRT1_2).erfc().mul(-0.5).add(1);
  const Tensor density = (x.square() * -0.5).exp() * (0.5 * M_2_SQRTPI * M_SQRT1_2);
  return grad * (below + x * density);
}

Tensor gelu(const Tensor& x) {
  if (x.device().is_cpu() && is_narrow(x)) return attnlab::gelu(wide(x)).to(x.scalar_type());
  if (!x.device().is_cpu() || x.scalar_type() != at::kFloat || x.layout() != at::kStrided) {
    return at::gelu(x);
  }
  if (at::GradMode::is_enabled() && x.requires_grad()) return Gelu::apply(x);
  return gelu_form(x.contiguous());
}

Tensor gelu_tanh(const Tensor& x) {
  if (x.device().is_cpu() && is_narrow(x)) return gelu_tanh(wide(x)).to(x.scalar_type());
  return at::gelu(x, "tanh");
}

}  // namespace attnlab
#endif
