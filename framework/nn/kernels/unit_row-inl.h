// Rows to unit length, and their gradient, in plain memory: what `unit` and the kernels that fold
// it in share, so that both give the same numbers bit for bit.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cmath>

#include "framework/nn/kernels/matrix.h"
#include "framework/nn/kernels/vectors-inl.h"

#if defined(ATTNLAB_UNIT_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTNLAB_UNIT_ROW_INL_H_
#undef ATTNLAB_UNIT_ROW_INL_H_
#else
#define ATTNLAB_UNIT_ROW_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

/// 1 / max(norm, eps); 0 where both are 0.
template <class T>
HWY_INLINE T inverse_of(T norm, T eps) {
  if (norm > eps) return 1 / norm;
  return eps > 0 ? 1 / eps : 0;
}

/// y = x / max(|x|_2, eps). @returns the factor that y = x * factor was made with.
template <class T>
HWY_INLINE T normalise_row(const T* x, T* y, std::int64_t dim, double eps) {
  const T inverse = inverse_of(std::sqrt(dot(x, x, dim)), T(eps));
  scale(inverse, x, y, dim);
  return inverse;
}

/// @param inverse  what `normalise_row` returned. dx may be dy.
template <class T>
HWY_INLINE void differentiate_row(const T* y, T inverse, const T* dy, T* dx, std::int64_t dim,
                                  double eps) {
  // A row below the floor was multiplied by a constant.
  const bool above = inverse != inverse_of(T(0), T(eps));
  const Vec<T> along = all(above ? dot(y, dy, dim) : T(0)), by = all(inverse);
  each_vector<T>(dim, [&](std::int64_t i, auto part) HWY_ATTR {
    const Vec<T> away = hn::NegMulAdd(load(y + i, part), along, load(dy + i, part));
    store<T>(hn::Mul(away, by), dx + i, part);
  });
}

/// Row i of y [count, dim] = row i of x over its norm; inverse[i] = 1 / max(norm, eps).
template <class T>
HWY_INLINE void normalise_rows(Matrix<const T> x, Matrix<T> y, Matrix<T> inverse,
                               std::int64_t count, std::int64_t dim, double eps) {
  constexpr std::int64_t kAhead = 8;  // rows of a head lie apart: the processor does not foresee it
  for (std::int64_t i = 0; i < count; ++i) {
    if (i + kAhead < count) {
      for (std::int64_t j = 0; j < dim; j += kPadding<T>) hwy::Prefetch(x.at(i + kAhead, j));
    }
    *inverse.at(i, 0) = normalise_row(x.at(i, 0), y.at(i, 0), dim, eps);
  }
}

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
