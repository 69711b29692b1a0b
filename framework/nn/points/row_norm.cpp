#include "framework/nn/points/row_norm.h"

#include <fmt/format.h>

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <vector>

#include "framework/nn/kernels/batch_statistics.h"
#include "framework/nn/kernels/own_loop.h"
#include "framework/tensor/narrow.h"

namespace attnlab {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kBlock = 512;  // rows that are summed by one thread

/// sums[0] = sum of x, sums[1] = sum of x * z, over rows; z may be x.
template <class T>
void sum_products(const T* x, const T* z, std::int64_t rows, std::int64_t channels, double* sums) {
  const std::int64_t blocks = (rows + kBlock - 1) / kBlock, width = 2 * channels;
  std::vector<double> parts(static_cast<std::size_t>(blocks * width), 0.0);
  at::parallel_for(0, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      double* __restrict__ plain = parts.data() + b * width;
      double* __restrict__ product = plain + channels;
      for (std::int64_t i = b * kBlock; i < std::min(rows, (b + 1) * kBlock); ++i) {
        const T *a = x + i * channels, *c = z + i * channels;
        for (std::int64_t j = 0; j < channels; ++j) {
          plain[j] += a[j];
          product[j] += static_cast<double>(a[j]) * c[j];
        }
      }
    }
  });
  std::fill_n(sums, width, 0.0);
  for (std::int64_t b = 0; b < blocks; ++b) {
    for (std::int64_t j = 0; j < width; ++j)
      sums[j] += parts[static_cast<std::size_t>(b * width + j)];
  }
}

/// [2, C]: sums over rows of x, and of x * z.
Tensor row_sums(const Tensor& x, const Tensor& z) {
  if (!has_own_loop(x)) {
    // In double, as below: the variance is a difference of two of them.
    const Tensor a = x.to(at::kDouble);
    const Tensor c = z.is_same(x) ? a : z.to(at::kDouble);
    return at::stack({a.sum(0), (a * c).sum(0)});
  }
  const Tensor a = x.contiguous(), c = z.contiguous();
  Tensor sums = at::empty({2, x.size(1)}, at::kDouble);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "row_sums", [&] {
    sum_products(a.data_ptr<scalar_t>(), c.data_ptr<scalar_t>(), x.size(0), x.size(1),
                 sums.data_ptr<double>());
  });
  return sums;
}

/// y = x * factor + shift, of each channel.
Tensor affine(const Tensor& x, const Tensor& factor, const Tensor& shift) {
  return at::addcmul(shift.to(x.scalar_type()), x, factor.to(x.scalar_type()));
}

/// The gradients of x, weight and bias by operations that autograd follows, mean and variance too:
/// for gradients of gradients.
std::array<Tensor, 3> composed_gradients(const Tensor& x, const Tensor& weight, const Tensor& dy,
                                         double eps) {
  const Tensor centred = x - x.mean(0);
  const Tensor inverse = (centred.square().mean(0) + eps).rsqrt();
  const Tensor unit = centred * inverse, product = dy * unit;
  const Tensor dx = weight * inverse * (dy - dy.mean(0) - unit * product.mean(0));
  return {dx, product.sum(0), dy.sum(0)};
}

/// By the batch's own mean and variance.
struct Normalise : public torch::autograd::Function<Normalise> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const Tensor& bias, const Tensor& mean, const Tensor& inverse, double eps) {
    context->save_for_backward({x, weight, mean, inverse});
    context->saved_data["eps"] = eps;
    const Tensor factor = inverse * weight;
    return affine(x, factor, bias - mean * factor);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &mean = saved[2], &inverse = saved[3];
    if (at::GradMode::is_enabled()) {
      const auto [dx, dw, db] =
          composed_gradients(x, weight, gradients[0], context->saved_data["eps"].toDouble());
      return {dx, dw, db, Tensor(), Tensor(), Tensor()};
    }
    // dx = w / s (dy - mean(dy) - x^ mean(dy x^)),   x^ = (x - m) / s
    const Tensor& dy = gradients[0];
    const Tensor sums = row_sums(dy, x);
    const Tensor along = (sums[1] - mean * sums[0]) * inverse;  // sum of dy x^
    const auto rows = static_cast<double>(x.size(0));
    const Tensor factor = inverse * weight;
    const Tensor slope = -factor * along * inverse / rows;
    const Tensor shift = -factor * sums[0] / rows - slope * mean;
    const Tensor dx = affine(x, slope, shift).addcmul_(dy, factor.to(dy.scalar_type()));
    const auto type = weight.scalar_type();
    return {dx, along.to(type), sums[0].to(type), Tensor(), Tensor(), Tensor()};
  }
};

void follow(const Tensor& running, const Tensor& now, double momentum) {
  const Tensor before = wide(running);
  running.copy_(before.lerp(now.to(before.scalar_type()), momentum));
}

}  // namespace

RowNorm::RowNorm(std::int64_t channels, double eps, double momentum)
    : eps_(eps), momentum_(momentum) {
  weight = register_parameter("weight", torch::ones({channels}));
  bias = register_parameter("bias", torch::zeros({channels}));
  running_mean = register_buffer("running_mean", torch::zeros({channels}));
  running_var = register_buffer("running_var", torch::ones({channels}));
}

Tensor RowNorm::forward(const Tensor& x) {
  if (x.dim() != 2 || x.size(1) != weight.size(0)) {
    throw ShapeError(
        fmt::format("row_norm: expected [N, {}], found {}", weight.size(0), describe(x)));
  }
  if (is_narrow(x)) return forward(wide(x)).to(x.scalar_type());
  if (!is_training() || !has_statistics(x.size(0))) {
    const Tensor factor = weight * (running_var + eps_).rsqrt();
    return affine(x, factor, bias - running_mean * factor);
  }
  const auto rows = static_cast<double>(x.size(0));
  Tensor mean, inverse;
  {
    const at::NoGradGuard no_gradients;
    const Tensor sums = row_sums(x, x);
    mean = sums[0] / rows;
    const Tensor variance = (sums[1] / rows - mean.square()).clamp_min(0);
    inverse = (variance + eps_).rsqrt();
    follow(running_mean, mean, momentum_);
    follow(running_var, variance * (rows / (rows - 1)), momentum_);
  }
  return Normalise::apply(x, weight, bias, mean, inverse, eps_);
}

}  // namespace attnlab
