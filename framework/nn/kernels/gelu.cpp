// GELU: see the header.
//
//   P(N <= -|x|) = e^(-x²/2) t Q(t),   t = 1 / (1 + |x| / sqrt 8)
//
// Q of degree 8 meets e^(z²) erfc(z) / 2t, z = |x| / sqrt 2 in [0, 10], at Chebyshev's points: its
// relative error is 5e-8. The exponential serves the density of the gradient as well.
#include "framework/nn/kernels/gelu.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/nn/kernels/gelu.cpp"
#include "framework/nn/kernels/dispatch-inl.h"
// (Above: before the vectors.)
#include "framework/nn/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

struct Normal {
  Vec<float> below;  ///< P(N <= x)
  Vec<float> bell;   ///< e^(-x²/2)
};

HWY_INLINE Normal normal_at(Vec<float> x) {
  constexpr float kQ[] = {0.141041337F, 0.141222521F,  0.121286446F, 0.102426828F,  -0.0159208788F,
                          0.142848855F, -0.246931825F, 0.143884155F, -0.0298574595F};
  const Vec<float> size = hn::Abs(x);
  const Vec<float> bell = exponential(hn::Mul(hn::Mul(x, x), all(-0.5F)));
  const Vec<float> t = hn::Div(all(1.F), hn::MulAdd(size, all(0.353553390593F), all(1.F)));
  Vec<float> q = all(kQ[8]);
  for (int i = 7; i >= 0; --i) q = hn::MulAdd(q, t, all(kQ[i]));
  const Vec<float> tail = hn::Mul(hn::Mul(bell, t), q);
  return {hn::IfThenElse(hn::Lt(x, zeros<float>()), tail, hn::Sub(all(1.F), tail)), bell};
}

void gelu_of_floats(const float* x, float* y, std::int64_t n) {
  each_vector<float>(n, [&](std::int64_t i, auto part) HWY_ATTR {
    const Vec<float> at = load(x + i, part);
    store<float>(hn::Mul(at, normal_at(at).below), y + i, part);
  });
}

/// P(N <= x) + x e^(-x²/2) / sqrt(2 pi)
HWY_INLINE Vec<float> slope_at(Vec<float> x, const Normal& normal) {
  return hn::MulAdd(x, hn::Mul(normal.bell, all(0.398942280401F)), normal.below);
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
  if (!x.device().is_cpu() || x.scalar_type() != at::kFloat || x.layout() != at::kStrided) {
    return at::gelu(x);
  }
  if (at::GradMode::is_enabled() && x.requires_grad()) return Gelu::apply(x);
  return gelu_form(x.contiguous());
}

}  // namespace attnlab
#endif
