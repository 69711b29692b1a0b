// Rows of unit length: see the header.
#include "framework/nn/kernels/unit.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/base/vector_clones.h"
#include "framework/nn/kernels/unit_row.h"

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

using rows::differentiate_row;
using rows::normalise_row;
using rows::Wide;

/// The same for float32, with the widest vectors that the processor has.
ATTNLAB_VECTOR_CLONES
float normalise_row(const float* x, float* __restrict__ y, std::int64_t dim, double eps) {
  return normalise_row<float>(x, y, dim, eps);
}

ATTNLAB_VECTOR_CLONES
void differentiate_row(const float* y, float inverse, const float* dy, float* dx, std::int64_t dim,
                       double eps) {
  differentiate_row<float>(y, inverse, dy, dx, dim, eps);
}

/// A matrix's rows and the distance between them.
template <class T>
struct Rows {
  T* first;
  std::int64_t step;
  T* at(std::int64_t i) const { return first + i * step; }
};

template <class T>
Rows<T> rows_of(const Tensor& matrix) {
  return {matrix.data_ptr<T>(), matrix.stride(0)};
}

/// Asks for row i before it is needed: rows of a head lie apart, so that the processor does not see
/// them coming.
template <class T>
[[gnu::always_inline]] inline void fetch(Rows<T> x, std::int64_t i, std::int64_t dim) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  for (std::int64_t j = 0; j < dim; j += kLine) __builtin_prefetch(x.at(i) + j);
}
constexpr std::int64_t kAhead = 8;

template <class T>
[[gnu::always_inline]] inline void normalise_matrix(Rows<T> x, Rows<T> y, Rows<T> inverse,
                                                    std::int64_t count, std::int64_t dim,
                                                    double eps) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (i + kAhead < count) fetch(x, i + kAhead, dim);
    *inverse.at(i) = normalise_row<T>(x.at(i), y.at(i), dim, eps);
  }
}

template <class T>
[[gnu::always_inline]] inline void scale_matrix(Rows<T> x, Rows<T> inverse, Rows<T> y,
                                                std::int64_t count, std::int64_t dim) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (i + kAhead < count) fetch(x, i + kAhead, dim);
    const T* from = x.at(i);
    T* to = y.at(i);
    const T factor = *inverse.at(i);
    for (std::int64_t j = 0; j < dim; ++j) to[j] = from[j] * factor;
  }
}

template <class T>
[[gnu::always_inline]] inline void differentiate_matrix(Rows<T> y, Rows<T> inverse, Rows<T> grad,
                                                        std::int64_t count, std::int64_t dim,
                                                        double eps) {
  for (std::int64_t i = 0; i < count; ++i) {
    differentiate_row<T>(y.at(i), *inverse.at(i), grad.at(i), grad.at(i), dim, eps);
  }
}

ATTNLAB_VECTOR_CLONES
void normalise_matrix(Rows<float> x, Rows<float> y, Rows<float> inverse, std::int64_t count,
                      std::int64_t dim, double eps) {
  normalise_matrix<float>(x, y, inverse, count, dim, eps);
}

ATTNLAB_VECTOR_CLONES
void scale_matrix(Rows<float> x, Rows<float> inverse, Rows<float> y, std::int64_t count,
                  std::int64_t dim) {
  scale_matrix<float>(x, inverse, y, count, dim);
}

ATTNLAB_VECTOR_CLONES
void differentiate_matrix(Rows<float> y, Rows<float> inverse, Rows<float> grad, std::int64_t count,
                          std::int64_t dim, double eps) {
  differentiate_matrix<float>(y, inverse, grad, count, dim, eps);
}

/// Whether a [B, H, L, D] tensor lies in memory as [B, L, H, D]: projections split into heads.
bool by_token(const Tensor& x) {
  return x.dim() == 4 && x.stride(3) == 1 && x.stride(1) < x.stride(2);
}

/// Whether it lies as [H, B, L, D]: projections of an ensemble, whose members come first.
bool by_head(const Tensor& x) {
  return x.dim() == 4 && x.size(0) > 1 && x.size(1) > 1 && x.stride(3) == 1 &&
         x.stride(1) > x.stride(0) && x.stride(0) >= x.stride(2);
}

/// x with the dimensions of `like` in the order of its memory, and back: each exchanges two.
Tensor in_memory_order(const Tensor& x, const Tensor& like) {
  return by_token(like) ? x.transpose(1, 2) : by_head(like) ? x.transpose(0, 1) : x;
}

/// [A, B, L, D] in the order in which x's rows lie in memory; ranks other than four as
/// [1, 1, rows, D]. The numbers of a row are neighbours. No copy for projections.
/// @param like  x, or the tensor whose gradient x is.
Tensor as_rows(const Tensor& x, const Tensor& like) {
  if (x.dim() != 4) return x.contiguous().view({1, 1, -1, x.size(-1)});
  const Tensor dense = x.stride(3) == 1 ? x : x.contiguous();
  return in_memory_order(dense, like);
}

/// What was computed in the order of `as_rows`, [A, B, L, C], in the order of `like`.
Tensor as_before(const Tensor& rows, const Tensor& like) {
  if (like.dim() == 4) return in_memory_order(rows, like);
  std::vector<std::int64_t> sizes = like.sizes().vec();
  sizes.back() = rows.size(3);
  return rows.view(sizes);
}

/// Calls work(row of x, row of other, number of the row) for every row, in parallel.
/// @param x, other  [A, B, L, D] with neighbouring numbers in a row.
template <class T, class Work>
void each_row(const Tensor& x, const Tensor& other, const Work& work) {
  const std::int64_t inner = x.size(1), length = x.size(2), dim = x.size(3);
  const T* from = x.data_ptr<T>();
  const T* with = other.data_ptr<T>();
  const at::IntArrayRef s = x.strides(), t = other.strides();
  const std::int64_t grain = std::max<std::int64_t>(1, 16 * 1024 / dim);
  at::parallel_for(0, x.size(0) * inner * length, grain, [&](std::int64_t begin, std::int64_t end) {
    // Counted, not divided for: three divisions would take as long as a short row itself.
    std::int64_t l = begin % length, b = begin / length % inner, a = begin / length / inner;
    for (std::int64_t row = begin; row < end; ++row) {
      work(from + a * s[0] + b * s[1] + l * s[2], with + a * t[0] + b * t[1] + l * t[2], row);
      if (++l < length) continue;
      l = 0;
      if (++b < inner) continue;
      b = 0, ++a;
    }
  });
}

/// y without a graph, and what its gradient needs.
struct UnitForm {
  Tensor value;    ///< [..., D]
  Tensor inverse;  ///< 1 / max(|x|_2, eps) [..., 1]; float32 for bfloat16
};

UnitForm unit_form(const Tensor& x, double eps) {
  const Tensor rows = as_rows(x.detach(), x);
  const Tensor y = at::empty(rows.sizes(), rows.options());
  const std::int64_t dim = rows.size(3);
  Tensor inverse;
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, x.scalar_type(), "unit", [&] {
    using W = Wide<scalar_t>;
    inverse = at::empty({rows.size(0), rows.size(1), rows.size(2), 1},
                        rows.options().dtype(c10::CppTypeToScalarType<W>::value));
    W* factors = inverse.data_ptr<W>();
    scalar_t* to = y.data_ptr<scalar_t>();
    each_row<scalar_t>(rows, rows, [&](const scalar_t* x, const scalar_t*, std::int64_t row) {
      factors[row] = normalise_row(x, to + row * dim, dim, eps);
    });
  });
  return {as_before(y, x), as_before(inverse, x)};
}

Tensor differentiate_rows(const UnitForm& unit, const Tensor& grad, double eps) {
  const Tensor y = as_rows(unit.value, unit.value), dy = as_rows(grad, unit.value);
  const Tensor inverse = in_memory_order(unit.inverse, unit.value).contiguous();
  const Tensor out = at::empty(y.sizes(), y.options());
  const std::int64_t dim = y.size(3);
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, y.scalar_type(), "unit_backward", [&] {
    const auto* factors = inverse.data_ptr<Wide<scalar_t>>();
    scalar_t* to = out.data_ptr<scalar_t>();
    each_row<scalar_t>(y, dy, [&](const scalar_t* y, const scalar_t* dy, std::int64_t row) {
      differentiate_row(y, factors[row], dy, to + row * dim, dim, eps);
    });
  });
  return as_before(out, unit.value);
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct UnitRows : public torch::autograd::Function<UnitRows> {
  static Tensor forward(AutogradContext* context, const Tensor& x, double eps) {
    const UnitForm unit = unit_form(x, eps);
    context->save_for_backward({x, unit.value, unit.inverse});
    context->saved_data["eps"] = eps;
    return unit.value;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const double eps = context->saved_data["eps"].toDouble();
    const Tensor& grad = gradients[0];
    // With gradients on, the caller asked for a graph of this backward pass.
    return {at::GradMode::is_enabled()
                ? composed_unit_gradient(saved[0], grad, eps)
                : differentiate_rows({saved[1].detach(), saved[2]}, grad.detach(), eps),
            Tensor()};
  }
};

bool has_row_kernel(const Tensor& x) {
  const at::ScalarType dtype = x.scalar_type();
  return x.device().is_cpu() && x.dim() > 0 && x.numel() > 0 &&
         (dtype == at::kFloat || dtype == at::kDouble || dtype == at::kBFloat16);
}

}  // namespace

Tensor composed_unit_gradient(const Tensor& x, const Tensor& grad, double eps) {
  const Inverse inverse = inverse_norm(x, eps);
  const Tensor y = x * inverse.value;
  const Tensor along = (y * grad).sum(-1, true).masked_fill(inverse.above.logical_not(), 0);
  return (grad - y * along) * inverse.value;
}

void unit_rows(const Tensor& x, double eps, const Tensor& y, const Tensor& inverse) {
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "unit_rows", [&] {
    normalise_matrix(rows_of<scalar_t>(x), rows_of<scalar_t>(y), rows_of<scalar_t>(inverse),
                     x.size(0), x.size(1), eps);
  });
}

void unit_rows_again(const Tensor& x, const Tensor& inverse, const Tensor& y) {
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "unit_rows_again", [&] {
    scale_matrix(rows_of<scalar_t>(x), rows_of<scalar_t>(inverse), rows_of<scalar_t>(y), x.size(0),
                 x.size(1));
  });
}

void differentiate_unit_rows(const Tensor& y, const Tensor& inverse, double eps,
                             const Tensor& grad) {
  AT_DISPATCH_FLOATING_TYPES(y.scalar_type(), "unit_rows_backward", [&] {
    differentiate_matrix(rows_of<scalar_t>(y), rows_of<scalar_t>(inverse), rows_of<scalar_t>(grad),
                         y.size(0), y.size(1), eps);
  });
}

Tensor unit(const Tensor& x, double eps) {
  if (!has_row_kernel(x)) return x * inverse_norm(x, eps).value;
  if (at::GradMode::is_enabled() && x.requires_grad()) return UnitRows::apply(x, eps);
  return unit_form(x, eps).value;
}

namespace rows {

void normalise(const float* x, std::int64_t x_step, float* y, std::int64_t y_step, float* inverse,
               std::int64_t count, std::int64_t dim, double eps) {
  normalise_matrix({const_cast<float*>(x), x_step}, {y, y_step}, {inverse, 1}, count, dim, eps);
}

void normalise(const double* x, std::int64_t x_step, double* y, std::int64_t y_step,
               double* inverse, std::int64_t count, std::int64_t dim, double eps) {
  normalise_matrix<double>({const_cast<double*>(x), x_step}, {y, y_step}, {inverse, 1}, count, dim,
                           eps);
}

void differentiate(const float* y, std::int64_t y_step, const float* inverse, float* grad,
                   std::int64_t grad_step, std::int64_t count, std::int64_t dim, double eps) {
  differentiate_matrix({const_cast<float*>(y), y_step}, {const_cast<float*>(inverse), 1},
                       {grad, grad_step}, count, dim, eps);
}

void differentiate(const double* y, std::int64_t y_step, const double* inverse, double* grad,
                   std::int64_t grad_step, std::int64_t count, std::int64_t dim, double eps) {
  differentiate_matrix<double>({const_cast<double*>(y), y_step}, {const_cast<double*>(inverse), 1},
                               {grad, grad_step}, count, dim, eps);
}

}  // namespace rows
}  // namespace attnlab
