// Loops over rows: see the header.
#include "framework/nn/kernels/row_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/nn/kernels/row_kernels.cpp"
#include "framework/nn/kernels/dispatch-inl.h"
// (Above: before the vectors.)
#include "framework/nn/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

void scale_rows_of_floats(rows::Rows x, const float* factors, rows::Rows y, std::int64_t count,
                          std::int64_t n) {
  for (std::int64_t r = 0; r < count; ++r) {
    const float* const from = x.at(r);
    float* const to = y.at(r);
    each_vector<float>(n, [&](std::int64_t i, auto part) HWY_ATTR {
      store<float>(hn::Mul(load(from + i, part), load(factors + i, part)), to + i, part);
    });
  }
}

// Sums stay in registers: columns outside, rows inside.
void add_products_of_floats(rows::Rows x, rows::Rows z, float* sums, std::int64_t count,
                            std::int64_t n) {
  each_vector<float>(n, [&](std::int64_t i, auto part) HWY_ATTR {
    Vec<float> sum = load(sums + i, part);
    for (std::int64_t r = 0; r < count; ++r) {
      sum = hn::MulAdd(load(x.at(r) + i, part), load(z.at(r) + i, part), sum);
    }
    store<float>(sum, sums + i, part);
  });
}

void add_rows_of_floats(const float* x, std::int64_t count, std::int64_t n, rows::Rows sums,
                        std::int64_t places) {
  for (std::int64_t place = 0; place < places; ++place) {
    float* const to = sums.at(place);
    each_vector<float>(n, [&](std::int64_t i, auto part) HWY_ATTR {
      Vec<float> sum = zeros<float>();
      for (std::int64_t r = place; r < count; r += places) {
        sum = hn::Add(load(x + r * n + i, part), sum);
      }
      store<float>(sum, to + i, part);
    });
  }
}

template <class T>
HWY_INLINE void scale_row_by(T* y, T a, const T* x, std::int64_t n) {
  each_vector<T>(n, [&](std::int64_t i, auto part) HWY_ATTR {
    const Vec<T> factor = hn::Mul(all(a), load(x + i, part));
    store<T>(hn::Mul(load(y + i, part), factor), y + i, part);
  });
}

template <class T>
HWY_INLINE void add_difference_row(T* y, const T* p, const T* g, T x, std::int64_t n) {
  each_vector<T>(n, [&](std::int64_t i, auto part) HWY_ATTR {
    const Vec<T> away = hn::Sub(load(g + i, part), all(x));
    store<T>(hn::MulAdd(load(p + i, part), away, load(y + i, part)), y + i, part);
  });
}

template <class T>
HWY_INLINE void subtract_terms_row(T* y, const rows::TwoTerms<T>& t, std::int64_t n) {
  each_vector<T>(n, [&](std::int64_t i, auto part) HWY_ATTR {
    const Vec<T> sum =
        hn::MulAdd(all(t.a), load(t.u + i, part), hn::Mul(all(t.b), load(t.w + i, part)));
    const Vec<T> left = hn::Sub(load(t.g + i, part), sum);
    store<T>(t.p == nullptr ? left : hn::Mul(load(t.p + i, part), left), y + i, part);
  });
}

// Tables of kernels hold plain functions.
float dot_floats(const float* a, const float* b, std::int64_t n) { return dot(a, b, n); }
double dot_doubles(const double* a, const double* b, std::int64_t n) { return dot(a, b, n); }
void add_scaled_floats(float* y, float a, const float* x, std::int64_t n) {
  add_scaled(y, a, x, n);
}
void add_scaled_doubles(double* y, double a, const double* x, std::int64_t n) {
  add_scaled(y, a, x, n);
}
void scale_by_floats(float* y, float a, const float* x, std::int64_t n) {
  scale_row_by(y, a, x, n);
}
void scale_by_doubles(double* y, double a, const double* x, std::int64_t n) {
  scale_row_by(y, a, x, n);
}
void add_weighted_difference_floats(float* y, const float* p, const float* g, float x,
                                    std::int64_t n) {
  add_difference_row(y, p, g, x, n);
}
void add_weighted_difference_doubles(double* y, const double* p, const double* g, double x,
                                     std::int64_t n) {
  add_difference_row(y, p, g, x, n);
}
void subtract_terms_floats(float* y, const rows::TwoTerms<float>& terms, std::int64_t n) {
  subtract_terms_row(y, terms, n);
}
void subtract_terms_doubles(double* y, const rows::TwoTerms<double>& terms, std::int64_t n) {
  subtract_terms_row(y, terms, n);
}

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnlab {
namespace {

HWY_EXPORT(dot_floats);
HWY_EXPORT(dot_doubles);
HWY_EXPORT(add_scaled_floats);
HWY_EXPORT(add_scaled_doubles);
HWY_EXPORT(scale_rows_of_floats);
HWY_EXPORT(add_products_of_floats);
HWY_EXPORT(add_rows_of_floats);
HWY_EXPORT(scale_by_floats);
HWY_EXPORT(scale_by_doubles);
HWY_EXPORT(add_weighted_difference_floats);
HWY_EXPORT(add_weighted_difference_doubles);
HWY_EXPORT(subtract_terms_floats);
HWY_EXPORT(subtract_terms_doubles);

}  // namespace

namespace rows {

float dot(const float* a, const float* b, std::int64_t n) {
  return ATTNLAB_DISPATCH(dot_floats)(a, b, n);
}
double dot(const double* a, const double* b, std::int64_t n) {
  return ATTNLAB_DISPATCH(dot_doubles)(a, b, n);
}
void add_scaled(float* y, float a, const float* x, std::int64_t n) {
  ATTNLAB_DISPATCH(add_scaled_floats)(y, a, x, n);
}
void add_scaled(double* y, double a, const double* x, std::int64_t n) {
  ATTNLAB_DISPATCH(add_scaled_doubles)(y, a, x, n);
}
void scale_rows(Rows x, const float* factors, Rows y, std::int64_t count, std::int64_t n) {
  ATTNLAB_DISPATCH(scale_rows_of_floats)(x, factors, y, count, n);
}
void add_products(Rows x, Rows z, float* sums, std::int64_t count, std::int64_t n) {
  ATTNLAB_DISPATCH(add_products_of_floats)(x, z, sums, count, n);
}
void add_rows(const float* x, std::int64_t count, std::int64_t n, Rows sums, std::int64_t places) {
  ATTNLAB_DISPATCH(add_rows_of_floats)(x, count, n, sums, places);
}
void scale_by(float* y, float a, const float* x, std::int64_t n) {
  ATTNLAB_DISPATCH(scale_by_floats)(y, a, x, n);
}
void scale_by(double* y, double a, const double* x, std::int64_t n) {
  ATTNLAB_DISPATCH(scale_by_doubles)(y, a, x, n);
}
void add_weighted_difference(float* y, const float* p, const float* g, float x, std::int64_t n) {
  ATTNLAB_DISPATCH(add_weighted_difference_floats)(y, p, g, x, n);
}
void add_weighted_difference(double* y, const double* p, const double* g, double x,
                             std::int64_t n) {
  ATTNLAB_DISPATCH(add_weighted_difference_doubles)(y, p, g, x, n);
}
void subtract_terms(float* y, const TwoTerms<float>& terms, std::int64_t n) {
  ATTNLAB_DISPATCH(subtract_terms_floats)(y, terms, n);
}
void subtract_terms(double* y, const TwoTerms<double>& terms, std::int64_t n) {
  ATTNLAB_DISPATCH(subtract_terms_doubles)(y, terms, n);
}

}  // namespace rows
}  // namespace attnlab
#endif
