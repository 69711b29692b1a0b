// y = x / max(|x|_2, eps) along the last dimension.
//
//   dx = (dy - y (y . dy)) / |x|   where |x| > eps,    dx = dy / eps   elsewhere.
//
// On the CPU one pass forward and one backward: a row's norm is found again while the row is in
// cache, so nothing but x is kept. Composed operations elsewhere and for gradients of gradients.
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

#include "framework/core/vector_clones.h"
#include "framework/nn/dot_product_attention.h"

namespace attnlab {
namespace {

/// 1 / max(|x|, eps), and whether the norm stands above eps. A zero row with eps = 0 gives 0.
struct Inverse {
  Tensor value;  ///< [..., 1]
  Tensor above;  ///< [..., 1] bool
};

Inverse inverse_norm(const Tensor& x, double eps) {
  const Tensor squares = (x * x).sum(-1, true);
  const Tensor above = squares.detach().sqrt() > eps;
  const double floor = eps > 0 ? 1 / eps : 0;
  // The square root's slope at zero is infinite: such rows never reach it.
  const Tensor safe = squares.masked_fill(above.logical_not(), 1);
  return {safe.rsqrt().masked_fill(above.logical_not(), floor), above};
}

Tensor differentiate_composed(const Tensor& x, const Tensor& grad, double eps) {
  const Inverse inverse = inverse_norm(x, eps);
  const Tensor y = x * inverse.value;
  const Tensor along = (y * grad).sum(-1, true).masked_fill(inverse.above.logical_not(), 0);
  return (grad - y * along) * inverse.value;
}

template <class T>
using Wide = at::opmath_type<T>;

/// <a, b> with independent partial sums, so that the compiler can use vector registers.
template <class T>
[[gnu::always_inline]] inline Wide<T> dot(const T* a, const T* b, std::int64_t n) {
  constexpr std::int64_t kLanes = 16;
  Wide<T> sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t j = 0; j < kLanes; ++j) sums[j] += Wide<T>(a[i + j]) * Wide<T>(b[i + j]);
  }
  Wide<T> total = 0;
  for (std::int64_t j = 0; j < kLanes; ++j) total += sums[j];
  for (; i < n; ++i) total += Wide<T>(a[i]) * Wide<T>(b[i]);
  return total;
}

template <class T>
[[gnu::always_inline]] inline T inverse_of(T norm, T eps) {
  if (norm > eps) return 1 / norm;
  return eps > 0 ? 1 / eps : 0;
}

template <class T>
[[gnu::always_inline]] inline void normalise_row(const T* x, T* y, std::int64_t dim, double eps) {
  const Wide<T> inverse = inverse_of(std::sqrt(dot(x, x, dim)), Wide<T>(eps));
  for (std::int64_t i = 0; i < dim; ++i) y[i] = T(Wide<T>(x[i]) * inverse);
}

template <class T>
[[gnu::always_inline]] inline void differentiate_row(const T* x, const T* dy, T* dx,
                                                     std::int64_t dim, double eps) {
  using W = Wide<T>;
  const W norm = std::sqrt(dot(x, x, dim));
  const W inverse = inverse_of(norm, W(eps));
  const W along = norm > W(eps) ? dot(x, dy, dim) * inverse * inverse : W(0);
  for (std::int64_t i = 0; i < dim; ++i) dx[i] = T((W(dy[i]) - W(x[i]) * along) * inverse);
}

/// The same for float32, with the widest vectors that the processor has.
ATTNLAB_VECTOR_CLONES
void normalise_row(const float* x, float* __restrict__ y, std::int64_t dim, double eps) {
  normalise_row<float>(x, y, dim, eps);
}

ATTNLAB_VECTOR_CLONES
void differentiate_row(const float* x, const float* dy, float* __restrict__ dx, std::int64_t dim,
                       double eps) {
  differentiate_row<float>(x, dy, dx, dim, eps);
}

/// [A, B, L, D] in the order in which its rows lie in memory; any other rank as [1, 1, rows, D].
/// The numbers of a row are neighbours. No copy for projections split into heads.
Tensor as_rows(const Tensor& x) {
  if (x.dim() != 4 || x.stride(3) != 1) return x.contiguous().view({1, 1, -1, x.size(-1)});
  return x.stride(1) < x.stride(2) ? x.transpose(1, 2) : x;
}

/// A result computed in `as_rows` order, back in the shape of x.
Tensor as_before(const Tensor& rows, const Tensor& x) {
  if (x.dim() != 4 || x.stride(3) != 1) return rows.view(x.sizes());
  return x.stride(1) < x.stride(2) ? rows.transpose(1, 2) : rows;
}

/// Calls work(row of x, row of other, row of out) for every row, in parallel.
/// @param x, other  [A, B, L, D] with neighbouring numbers in a row.
/// @param out       [A, B, L, D] contiguous.
template <class T, class Work>
void each_row(const Tensor& x, const Tensor& other, const Tensor& out, const Work& work) {
  const std::int64_t inner = x.size(1), length = x.size(2), dim = x.size(3);
  const T* from = x.data_ptr<T>();
  const T* with = other.data_ptr<T>();
  T* to = out.data_ptr<T>();
  const at::IntArrayRef s = x.strides(), t = other.strides();
  const std::int64_t grain = std::max<std::int64_t>(1, 16 * 1024 / dim);
  at::parallel_for(0, x.size(0) * inner * length, grain, [&](std::int64_t begin, std::int64_t end) {
    // Counted, not divided for: three divisions would take as long as a short row itself.
    std::int64_t l = begin % length, b = begin / length % inner, a = begin / length / inner;
    for (std::int64_t row = begin; row < end; ++row) {
      work(from + a * s[0] + b * s[1] + l * s[2], with + a * t[0] + b * t[1] + l * t[2],
           to + row * dim, dim);
      if (++l < length) continue;
      l = 0;
      if (++b < inner) continue;
      b = 0, ++a;
    }
  });
}

Tensor normalise_rows(const Tensor& x, double eps) {
  const Tensor rows = as_rows(x.detach());
  const Tensor out = at::empty(rows.sizes(), rows.options());
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, x.scalar_type(), "unit", [&] {
    each_row<scalar_t>(rows, rows, out,
                       [&](const scalar_t* x, const scalar_t*, scalar_t* y, std::int64_t dim) {
                         normalise_row(x, y, dim, eps);
                       });
  });
  return as_before(out, x);
}

Tensor differentiate_rows(const Tensor& x, const Tensor& grad, double eps) {
  const Tensor rows = as_rows(x.detach());
  Tensor grads = grad.detach();
  // The gradient's rows in the order of x's.
  if (x.dim() == 4 && x.stride(3) == 1) {
    if (grads.stride(3) != 1) grads = grads.contiguous();
    if (x.stride(1) < x.stride(2)) grads = grads.transpose(1, 2);
  } else {
    grads = grads.contiguous().view(rows.sizes());
  }
  const Tensor out = at::empty(rows.sizes(), rows.options());
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, x.scalar_type(), "unit_backward", [&] {
    each_row<scalar_t>(rows, grads, out,
                       [&](const scalar_t* x, const scalar_t* dy, scalar_t* dx, std::int64_t dim) {
                         differentiate_row(x, dy, dx, dim, eps);
                       });
  });
  return as_before(out, x);
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct UnitRows : public torch::autograd::Function<UnitRows> {
  static Tensor forward(AutogradContext* context, const Tensor& x, double eps) {
    context->save_for_backward({x});
    context->saved_data["eps"] = eps;
    return normalise_rows(x, eps);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Tensor x = context->get_saved_variables()[0];
    const double eps = context->saved_data["eps"].toDouble();
    const Tensor& grad = gradients[0];
    // With gradients on, the caller asked for a graph of this backward pass.
    return {at::GradMode::is_enabled() ? differentiate_composed(x, grad, eps)
                                       : differentiate_rows(x, grad, eps),
            Tensor()};
  }
};

bool has_row_kernel(const Tensor& x) {
  const at::ScalarType dtype = x.scalar_type();
  return x.device().is_cpu() && x.dim() > 0 && x.numel() > 0 &&
         (dtype == at::kFloat || dtype == at::kDouble || dtype == at::kBFloat16);
}

}  // namespace

Tensor unit(const Tensor& x, double eps) {
  if (!has_row_kernel(x)) return x * inverse_norm(x, eps).value;
  if (at::GradMode::is_enabled() && x.requires_grad()) return UnitRows::apply(x, eps);
  return normalise_rows(x, eps);
}

}  // namespace attnlab
