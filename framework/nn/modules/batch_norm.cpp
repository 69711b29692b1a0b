// Batch normalisation of rows: see the header.
#include "framework/nn/modules/batch_norm.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "framework/base/vector_clones.h"
#include "framework/nn/kernels/batch_statistics.h"
#include "framework/nn/modules/composed_gradients.h"
#include "framework/tensor/narrow.h"

namespace attnlab {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Rows that are summed as one: the same pieces whatever the number of threads.
constexpr std::int64_t kPiece = 256;

/// Of each channel: y = (x - mean) * scale + bias, scale = weight / sqrt(v + eps).
template <class T>
struct Channels {
  const T *mean, *scale, *bias;
  bool relu;

  [[gnu::always_inline]] T normalised(T x, std::int64_t c) const {
    return (x - mean[c]) * scale[c] + bias[c];
  }
};

/// sums += x - shift, squares += (x - shift)^2
template <class T>
[[gnu::always_inline]] inline void moments_of(const T* __restrict__ x, const T* __restrict__ shift,
                                              double* __restrict__ sums,
                                              double* __restrict__ squares, std::int64_t rows,
                                              std::int64_t width) {
  for (std::int64_t i = 0; i < rows; ++i, x += width) {
    for (std::int64_t c = 0; c < width; ++c) {
      const double d = double(x[c]) - double(shift[c]);
      sums[c] += d;
      squares[c] += d * d;
    }
  }
}

ATTNLAB_VECTOR_CLONES
void moments(const float* x, const float* shift, double* sums, double* squares, std::int64_t rows,
             std::int64_t width) {
  moments_of(x, shift, sums, squares, rows, width);
}
ATTNLAB_VECTOR_CLONES
void moments(const double* x, const double* shift, double* sums, double* squares, std::int64_t rows,
             std::int64_t width) {
  moments_of(x, shift, sums, squares, rows, width);
}

/// @param residual  null: none
template <class T>
[[gnu::always_inline]] inline void normalise_rows(const T* __restrict__ x, const T* residual,
                                                  T* __restrict__ y, Channels<T> by,
                                                  std::int64_t rows, std::int64_t width) {
  for (std::int64_t i = 0; i < rows; ++i, x += width, y += width) {
    if (by.relu) {
      for (std::int64_t c = 0; c < width; ++c) {
        const T value = by.normalised(x[c], c);
        y[c] = value < 0 ? T(0) : value;  // a NaN stays one
      }
    } else {
      for (std::int64_t c = 0; c < width; ++c) y[c] = by.normalised(x[c], c);
    }
    if (residual == nullptr) continue;
    for (std::int64_t c = 0; c < width; ++c) y[c] += residual[c];
    residual += width;
  }
}

ATTNLAB_VECTOR_CLONES
void normalise(const float* x, const float* residual, float* y, Channels<float> by,
               std::int64_t rows, std::int64_t width) {
  normalise_rows(x, residual, y, by, rows, width);
}
ATTNLAB_VECTOR_CLONES
void normalise(const double* x, const double* residual, double* y, Channels<double> by,
               std::int64_t rows, std::int64_t width) {
  normalise_rows(x, residual, y, by, rows, width);
}

/// What of y's gradient comes through the rectifier.
template <class T>
[[gnu::always_inline]] inline T passed(T dy, T x, std::int64_t c, const Channels<T>& by) {
  return by.relu && by.normalised(x, c) <= 0 ? T(0) : dy;
}

/// sums += g, products += g (x - mean), where g is what passes of dy.
template <class T>
[[gnu::always_inline]] inline void gradient_sums_of(const T* __restrict__ x,
                                                    const T* __restrict__ dy,
                                                    double* __restrict__ sums,
                                                    double* __restrict__ products, Channels<T> by,
                                                    std::int64_t rows, std::int64_t width) {
  for (std::int64_t i = 0; i < rows; ++i, x += width, dy += width) {
    for (std::int64_t c = 0; c < width; ++c) {
      const double g = passed(dy[c], x[c], c, by);
      sums[c] += g;
      products[c] += g * double(x[c] - by.mean[c]);
    }
  }
}

ATTNLAB_VECTOR_CLONES
void gradient_sums(const float* x, const float* dy, double* sums, double* products,
                   Channels<float> by, std::int64_t rows, std::int64_t width) {
  gradient_sums_of(x, dy, sums, products, by, rows, width);
}
ATTNLAB_VECTOR_CLONES
void gradient_sums(const double* x, const double* dy, double* sums, double* products,
                   Channels<double> by, std::int64_t rows, std::int64_t width) {
  gradient_sums_of(x, dy, sums, products, by, rows, width);
}

/// dx = scale (g - mean of g - (x - mean) slope)
template <class T>
[[gnu::always_inline]] inline void differentiate_rows(const T* __restrict__ x,
                                                      const T* __restrict__ dy, T* __restrict__ dx,
                                                      const T* __restrict__ mean_of_g,
                                                      const T* __restrict__ slope, Channels<T> by,
                                                      std::int64_t rows, std::int64_t width) {
  for (std::int64_t i = 0; i < rows; ++i, x += width, dy += width, dx += width) {
    for (std::int64_t c = 0; c < width; ++c) {
      const T g = passed(dy[c], x[c], c, by);
      dx[c] = by.scale[c] * (g - mean_of_g[c] - (x[c] - by.mean[c]) * slope[c]);
    }
  }
}

ATTNLAB_VECTOR_CLONES
void differentiate(const float* x, const float* dy, float* dx, const float* mean_of_g,
                   const float* slope, Channels<float> by, std::int64_t rows, std::int64_t width) {
  differentiate_rows(x, dy, dx, mean_of_g, slope, by, rows, width);
}
ATTNLAB_VECTOR_CLONES
void differentiate(const double* x, const double* dy, double* dx, const double* mean_of_g,
                   const double* slope, Channels<double> by, std::int64_t rows,
                   std::int64_t width) {
  differentiate_rows(x, dy, dx, mean_of_g, slope, by, rows, width);
}

/// Two sums over all rows of each channel: `add(first row, rows, sums, squares)` piece by piece,
/// the pieces' sums one after the other.
/// @returns [2, C] float64
template <class Add>
Tensor summed(const Tensor& x, const Add& add) {
  const std::int64_t rows = x.size(0), width = x.size(1), pieces = (rows + kPiece - 1) / kPiece;
  const Tensor parts = at::zeros({pieces, 2, width}, x.options().dtype(at::kDouble));
  auto* all = parts.data_ptr<double>();
  at::parallel_for(0, pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      double* const sums = all + p * 2 * width;
      add(p * kPiece, std::min(kPiece, rows - p * kPiece), sums, sums + width);
    }
  });
  return parts.sum(0);
}

template <class Work>
void each_piece_of_rows(const Tensor& x, const Work& work) {
  at::parallel_for(0, x.size(0), kPiece, [&](std::int64_t begin, std::int64_t end) {
    work(begin * x.size(1), end - begin);
  });
}

/// The batch's statistics, in double precision: mean and v, [2, C].
Tensor statistics_of(const Tensor& x) {
  const std::int64_t width = x.size(1);
  const Tensor shift = x[0];  // without it, the squares of a mean far from 0 swallow the variance
  const Tensor sums = AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "batch_norm", [&] {
    const auto* from = x.data_ptr<scalar_t>();
    return summed(x, [&](std::int64_t row, std::int64_t rows, double* sum, double* squares) {
      moments(from + row * width, shift.data_ptr<scalar_t>(), sum, squares, rows, width);
    });
  });
  const Tensor away = sums / double(x.size(0));
  return at::stack({shift.to(at::kDouble) + away[0], (away[1] - away[0].square()).clamp_min_(0)});
}

struct Normalised : public torch::autograd::Function<Normalised> {
  /// @param statistics  of `statistics_of`
  static Tensor forward(AutogradContext* context, const Tensor& given, const Tensor& weight,
                        const Tensor& bias, const Tensor& residual, const Tensor& statistics,
                        const std::pair<bool, double>& relu_and_eps) {
    const Tensor x = given.contiguous();
    const bool relu = relu_and_eps.first;
    const double eps = relu_and_eps.second;
    const Tensor inverse = (statistics[1] + eps).rsqrt();
    const Tensor mean = statistics[0].to(x.scalar_type());
    const Tensor scale = (weight.to(at::kDouble) * inverse).to(x.scalar_type());
    const Tensor added = residual.numel() > 0 ? residual.contiguous() : Tensor();
    Tensor y = at::empty(x.sizes(), x.options());
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "batch_norm", [&] {
      const Channels<scalar_t> by = {mean.data_ptr<scalar_t>(), scale.data_ptr<scalar_t>(),
                                     bias.data_ptr<scalar_t>(), relu};
      each_piece_of_rows(x, [&](std::int64_t at, std::int64_t rows) {
        normalise(x.data_ptr<scalar_t>() + at,
                  added.defined() ? added.data_ptr<scalar_t>() + at : nullptr,
                  y.data_ptr<scalar_t>() + at, by, rows, x.size(1));
      });
    });
    context->save_for_backward({given, weight, bias, mean, scale, inverse});
    context->saved_data["relu"] = relu;
    context->saved_data["eps"] = eps;
    context->saved_data["residual"] = added.defined();
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients);
};

/// The same as operations that autograd can follow. @param x  with rows
Tensor composed(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                const Tensor& variance, double eps, const AfterNorm& after) {
  Tensor y = (x - mean) * ((variance + eps).rsqrt() * weight) + bias;
  if (after.relu) y = y.relu();
  return after.residual.defined() ? y + after.residual : y;
}

variable_list Normalised::backward(AutogradContext* context, const variable_list& gradients) {
  const variable_list saved = context->get_saved_variables();
  const Tensor &given = saved[0], &weight = saved[1], &bias = saved[2], &dy = gradients[0];
  const bool relu = context->saved_data["relu"].toBool();
  const Tensor to_residual = context->saved_data["residual"].toBool() ? dy : Tensor();
  // With gradients on, the caller asked for a graph of this backward pass.
  if (at::GradMode::is_enabled()) {
    const Tensor mean = given.mean(0), variance = (given - mean).square().mean(0);
    const Tensor y = composed(given, weight, bias, mean, variance,
                              context->saved_data["eps"].toDouble(), {relu, {}});
    const variable_list d = composed_gradients({y}, {given, weight, bias}, {dy});
    return {d[0], d[1], d[2], to_residual, Tensor(), Tensor()};
  }
  const Tensor x = given.contiguous(), grad = dy.contiguous();
  const Tensor &mean = saved[3], &scale = saved[4], &inverse = saved[5];
  const std::int64_t width = x.size(1);
  Tensor dx = at::empty(x.sizes(), x.options());
  Tensor sums;
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "batch_norm_backward", [&] {
    const Channels<scalar_t> by = {mean.data_ptr<scalar_t>(), scale.data_ptr<scalar_t>(),
                                   bias.data_ptr<scalar_t>(), relu};
    const auto *from = x.data_ptr<scalar_t>(), *dys = grad.data_ptr<scalar_t>();
    sums = summed(x, [&](std::int64_t row, std::int64_t rows, double* sum, double* products) {
      gradient_sums(from + row * width, dys + row * width, sum, products, by, rows, width);
    });
    const Tensor mean_of_g = (sums[0] / double(x.size(0))).to(x.scalar_type());
    const Tensor slope = (sums[1] * inverse.square() / double(x.size(0))).to(x.scalar_type());
    each_piece_of_rows(x, [&](std::int64_t at, std::int64_t rows) {
      differentiate(from + at, dys + at, dx.data_ptr<scalar_t>() + at,
                    mean_of_g.data_ptr<scalar_t>(), slope.data_ptr<scalar_t>(), by, rows, width);
    });
  });
  return {dx,
          (sums[1] * inverse).to(weight.scalar_type()),
          sums[0].to(bias.scalar_type()),
          to_residual,
          Tensor(),
          Tensor()};
}

bool has_own_kernel(const Tensor& x, const Tensor& weight) {
  return x.device().is_cpu() && weight.device().is_cpu() &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble) &&
         weight.scalar_type() == x.scalar_type();
}

}  // namespace

BatchNorm::BatchNorm(std::int64_t dim, double eps, double momentum)
    : eps_(eps), momentum_(momentum) {
  weight = register_parameter("weight", at::ones({dim}));
  bias = register_parameter("bias", at::zeros({dim}));
  running_mean = register_buffer("running_mean", at::zeros({dim}));
  running_variance = register_buffer("running_variance", at::ones({dim}));
}

void BatchNorm::follow(const Tensor& mean, const Tensor& variance, std::int64_t rows) {
  const at::NoGradGuard no_gradients;
  const double unbiased = double(rows) / double(rows - 1);
  running_mean.mul_(1 - momentum_).add_(mean, momentum_);
  running_variance.mul_(1 - momentum_).add_(variance, momentum_ * unbiased);
}

Tensor BatchNorm::forward(const Tensor& x, const AfterNorm& after) {
  if (x.dim() != 2 || x.size(1) != weight.size(0)) {
    throw ShapeError(fmt::format("BatchNorm takes [N, {}], found {}", weight.size(0), describe(x)));
  }
  if (is_narrow(x)) {
    return forward(wide(x), {after.relu, wide(after.residual)}).to(x.scalar_type());
  }
  if (!is_training() || !has_statistics(x.size(0))) {
    return composed(x, weight, bias, running_mean, running_variance, eps_, after);
  }
  if (!has_own_kernel(x, weight)) {
    const Tensor mean = x.mean(0), variance = (x - mean).square().mean(0);
    follow(mean, variance, x.size(0));
    return composed(x, weight, bias, mean, variance, eps_, after);
  }
  const Tensor statistics = statistics_of(x.detach().contiguous());
  follow(statistics[0], statistics[1], x.size(0));
  const Tensor residual = after.residual.defined() ? after.residual : at::empty({0}, x.options());
  return Normalised::apply(x, weight, bias, residual, statistics,
                           std::pair<bool, double>(after.relu, eps_));
}

}  // namespace attnlab
