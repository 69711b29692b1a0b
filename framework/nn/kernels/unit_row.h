// Rows to unit length, and their gradient, in plain memory: what `unit` and the kernels that fold
// it in share, so that both give the same numbers bit for bit.
#pragma once

#include <ATen/OpMathType.h>

#include <cmath>
#include <cstdint>

namespace attnlab::rows {

template <class T>
using Wide = at::opmath_type<T>;

/// The sum of `count` (a power of two) numbers, halves onto halves: from left to right it would
/// take longer than a short row's products.
template <int count, class T>
[[gnu::always_inline]] inline T sum_of(T* numbers) {
  if constexpr (count == 1) {
    return numbers[0];
  } else {
    for (int j = 0; j < count / 2; ++j) numbers[j] += numbers[j + count / 2];
    return sum_of<count / 2>(numbers);
  }
}

/// <a, b> with independent partial sums, so that the compiler can use vector registers.
template <class T>
[[gnu::always_inline]] inline Wide<T> dot(const T* a, const T* b, std::int64_t n) {
  constexpr std::int64_t kLanes = 16;
  Wide<T> sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t j = 0; j < kLanes; ++j) sums[j] += Wide<T>(a[i + j]) * Wide<T>(b[i + j]);
  }
  Wide<T> total = sum_of<kLanes>(sums);
  for (; i < n; ++i) total += Wide<T>(a[i]) * Wide<T>(b[i]);
  return total;
}

/// 1 / max(norm, eps); 0 where both are 0.
template <class T>
[[gnu::always_inline]] inline T inverse_of(T norm, T eps) {
  if (norm > eps) return 1 / norm;
  return eps > 0 ? 1 / eps : 0;
}

/// y = x / max(|x|_2, eps). @returns the factor that y = x * factor was made with.
template <class T>
[[gnu::always_inline]] inline Wide<T> normalise_row(const T* x, T* y, std::int64_t dim,
                                                    double eps) {
  const Wide<T> inverse = inverse_of(std::sqrt(dot(x, x, dim)), Wide<T>(eps));
  for (std::int64_t i = 0; i < dim; ++i) y[i] = T(Wide<T>(x[i]) * inverse);
  return inverse;
}

/// @param inverse  what `normalise_row` returned. dx may be dy.
template <class T>
[[gnu::always_inline]] inline void differentiate_row(const T* y, Wide<T> inverse, const T* dy,
                                                     T* dx, std::int64_t dim, double eps) {
  using W = Wide<T>;
  // A row below the floor was multiplied by a constant.
  const bool above = inverse != inverse_of(W(0), W(eps));
  const W along = above ? dot(y, dy, dim) : W(0);
  for (std::int64_t i = 0; i < dim; ++i) dx[i] = T((W(dy[i]) - W(y[i]) * along) * inverse);
}

/// Row i of y [count, dim] = row i of x over its norm, and inverse[i] = 1 / max(norm, eps).
/// @param x_step, y_step  from one row to the next
void normalise(const float* x, std::int64_t x_step, float* y, std::int64_t y_step, float* inverse,
               std::int64_t count, std::int64_t dim, double eps);
void normalise(const double* x, std::int64_t x_step, double* y, std::int64_t y_step,
               double* inverse, std::int64_t count, std::int64_t dim, double eps);

/// The gradient of x in place of that of y; y and inverse are what `normalise` gave.
void differentiate(const float* y, std::int64_t y_step, const float* inverse, float* grad,
                   std::int64_t grad_step, std::int64_t count, std::int64_t dim, double eps);
void differentiate(const double* y, std::int64_t y_step, const double* inverse, double* grad,
                   std::int64_t grad_step, std::int64_t count, std::int64_t dim, double eps);

}  // namespace attnlab::rows
