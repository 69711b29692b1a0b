// Rows of unit length: see the header.
#include "framework/nn/kernels/unit.h"

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/nn/kernels/row_grid.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/nn/kernels/unit.cpp"
#include "framework/nn/kernels/dispatch-inl.h"
// (Above: before the vectors.)
#include "framework/nn/kernels/unit_row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

template <class T>
HWY_INLINE void normalise_grid(const RowGrid<T>& grid, RowRange range, T* y, T* inverse,
                               double eps) {
  grid.each(range, [&](const T* x, const T*, std::int64_t row) HWY_ATTR {
    inverse[row] = normalise_row(x, y + row * grid.dim, grid.dim, eps);
  });
}

template <class T>
HWY_INLINE void differentiate_grid(const RowGrid<T>& grid, RowRange range, const T* inverse, T* dx,
                                   double eps) {
  grid.each(range, [&](const T* y, const T* dy, std::int64_t row) HWY_ATTR {
    differentiate_row(y, inverse[row], dy, dx + row * grid.dim, grid.dim, eps);
  });
}

// Tables of kernels hold plain functions.
void normalise_float_rows(const RowGrid<float>& grid, RowRange range, float* y, float* inverse,
                          double eps) {
  normalise_grid(grid, range, y, inverse, eps);
}
void normalise_double_rows(const RowGrid<double>& grid, RowRange range, double* y, double* inverse,
                           double eps) {
  normalise_grid(grid, range, y, inverse, eps);
}
void differentiate_float_rows(const RowGrid<float>& grid, RowRange range, const float* inverse,
                              float* dx, double eps) {
  differentiate_grid(grid, range, inverse, dx, eps);
}
void differentiate_double_rows(const RowGrid<double>& grid, RowRange range, const double* inverse,
                               double* dx, double eps) {
  differentiate_grid(grid, range, inverse, dx, eps);
}

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnlab {
namespace {

HWY_EXPORT(normalise_float_rows);
HWY_EXPORT(normalise_double_rows);
HWY_EXPORT(differentiate_float_rows);
HWY_EXPORT(differentiate_double_rows);

/// 1 / max(|x|, eps), and whether the norm stands above eps. A zero row with eps = 0 gives 0.
struct Inverse {
  Tensor value;  ///< [..., 1]; float32 for narrower numbers, which hold neither squares nor 1 / eps
  Tensor above;  ///< [..., 1] bool
};

Inverse inverse_norm(const Tensor& given, double eps) {
  const Tensor x = given.to(at::toOpMathType(given.scalar_type()));
  const Tensor squares = (x * x).sum(-1, true);
  const Tensor above = squares.detach().sqrt() > eps;
  const double floor = eps > 0 ? 1 / eps : 0;
  // The square root's slope at zero is infinite: such rows never reach it.
  const Tensor safe = squares.masked_fill(above.logical_not(), 1);
  return {safe.rsqrt().masked_fill(above.logical_not(), floor), above};
}

template <class T>
using Wide = at::opmath_type<T>;

/// bfloat16, with sums in float32, by plain loops.
void normalise_rows(const RowGrid<at::BFloat16>& grid, RowRange range, at::BFloat16* y,
                    float* inverse, double eps) {
  grid.each(range, [&](const at::BFloat16* x, const at::BFloat16*, std::int64_t row) {
    float sum = 0;
    for (std::int64_t i = 0; i < grid.dim; ++i) sum += float(x[i]) * float(x[i]);
    const float norm = std::sqrt(sum), floor = static_cast<float>(eps);
    inverse[row] = norm > floor ? 1 / norm : floor > 0 ? 1 / floor : 0;
    for (std::int64_t i = 0; i < grid.dim; ++i) y[row * grid.dim + i] = float(x[i]) * inverse[row];
  });
}

void differentiate_rows(const RowGrid<at::BFloat16>& grid, RowRange range, const float* inverse,
                        at::BFloat16* dx, double eps) {
  grid.each(range, [&](const at::BFloat16* y, const at::BFloat16* dy, std::int64_t row) {
    const bool above = inverse[row] != (eps > 0 ? 1 / static_cast<float>(eps) : 0);
    float along = 0;
    for (std::int64_t i = 0; above && i < grid.dim; ++i) along += float(y[i]) * float(dy[i]);
    for (std::int64_t i = 0; i < grid.dim; ++i) {
      dx[row * grid.dim + i] = (float(dy[i]) - float(y[i]) * along) * inverse[row];
    }
  });
}

void normalise_rows(const RowGrid<float>& grid, RowRange range, float* y, float* inverse,
                    double eps) {
  ATTNLAB_DISPATCH(normalise_float_rows)(grid, range, y, inverse, eps);
}
void normalise_rows(const RowGrid<double>& grid, RowRange range, double* y, double* inverse,
                    double eps) {
  ATTNLAB_DISPATCH(normalise_double_rows)(grid, range, y, inverse, eps);
}
void differentiate_rows(const RowGrid<float>& grid, RowRange range, const float* inverse, float* dx,
                        double eps) {
  ATTNLAB_DISPATCH(differentiate_float_rows)(grid, range, inverse, dx, eps);
}
void differentiate_rows(const RowGrid<double>& grid, RowRange range, const double* inverse,
                        double* dx, double eps) {
  ATTNLAB_DISPATCH(differentiate_double_rows)(grid, range, inverse, dx, eps);
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

/// Calls work(rows, range) for all rows, in parallel.
/// @param x, other  [A, B, L, D] with neighbouring numbers in a row.
template <class T, class Work>
void each_range(const Tensor& x, const Tensor& other, const Work& work) {
  const std::int64_t inner = x.size(1), length = x.size(2), dim = x.size(3);
  const at::IntArrayRef s = x.strides(), t = other.strides();
  const RowGrid<T> grid{x.data_ptr<T>(),
                        other.data_ptr<T>(),
                        {s[0], s[1], s[2]},
                        {t[0], t[1], t[2]},
                        inner,
                        length,
                        dim};
  const std::int64_t grain = std::max<std::int64_t>(1, 16 * 1024 / dim);
  at::parallel_for(0, x.size(0) * inner * length, grain, [&](std::int64_t begin, std::int64_t end) {
    work(grid, RowRange{begin, end});
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
  Tensor inverse;
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, x.scalar_type(), "unit", [&] {
    using W = Wide<scalar_t>;
    inverse = at::empty({rows.size(0), rows.size(1), rows.size(2), 1},
                        rows.options().dtype(c10::CppTypeToScalarType<W>::value));
    W* factors = inverse.data_ptr<W>();
    scalar_t* to = y.data_ptr<scalar_t>();
    each_range<scalar_t>(rows, rows, [&](const RowGrid<scalar_t>& grid, RowRange range) {
      normalise_rows(grid, range, to, factors, eps);
    });
  });
  return {as_before(y, x), as_before(inverse, x)};
}

Tensor unit_gradient(const UnitForm& unit, const Tensor& grad, double eps) {
  const Tensor y = as_rows(unit.value, unit.value), dy = as_rows(grad, unit.value);
  const Tensor inverse = in_memory_order(unit.inverse, unit.value).contiguous();
  const Tensor out = at::empty(y.sizes(), y.options());
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, y.scalar_type(), "unit_backward", [&] {
    const auto* factors = inverse.data_ptr<Wide<scalar_t>>();
    scalar_t* to = out.data_ptr<scalar_t>();
    each_range<scalar_t>(y, dy, [&](const RowGrid<scalar_t>& grid, RowRange range) {
      differentiate_rows(grid, range, factors, to, eps);
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
                : unit_gradient({saved[1].detach(), saved[2]}, grad.detach(), eps),
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
  return ((grad - y * along) * inverse.value).to(x.scalar_type());
}

Tensor unit(const Tensor& x, double eps) {
  if (!has_row_kernel(x)) return (x * inverse_norm(x, eps).value).to(x.scalar_type());
  if (at::GradMode::is_enabled() && x.requires_grad()) return UnitRows::apply(x, eps);
  return unit_form(x, eps).value;
}

}  // namespace attnlab
#endif
