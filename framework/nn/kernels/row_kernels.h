// Loops over rows of plain numbers, with the best instructions that the processor has.
#pragma once

#include <cstdint>

namespace attnlab::rows {

/// <a, b> of n numbers. Partial sums are independent: the order is the same on every thread, not on
/// every processor.
float dot(const float* a, const float* b, std::int64_t n);
double dot(const double* a, const double* b, std::int64_t n);

/// y += a x
void add_scaled(float* y, float a, const float* x, std::int64_t n);
void add_scaled(double* y, double a, const double* x, std::int64_t n);

/// A matrix's rows.
struct Rows {
  float* first;
  std::int64_t step;  ///< from one row to the next
  float* at(std::int64_t i) const { return first + i * step; }
};

/// Row r of y = row r of x times the factors, number by number.
void scale_rows(Rows x, const float* factors, Rows y, std::int64_t count, std::int64_t n);

/// sums += x * z of all rows, number by number.
void add_products(Rows x, Rows z, float* sums, std::int64_t count, std::int64_t n);

/// Row r of x [count, n], dense, to sum r % places; sums are zeroed first.
void add_rows(const float* x, std::int64_t count, std::int64_t n, Rows sums, std::int64_t places);

/// y *= a x, number by number.
void scale_by(float* y, float a, const float* x, std::int64_t n);
void scale_by(double* y, double a, const double* x, std::int64_t n);

/// y += p (g - x), number by number.
void add_weighted_difference(float* y, const float* p, const float* g, float x, std::int64_t n);
void add_weighted_difference(double* y, const double* p, const double* g, double x, std::int64_t n);

/// p, and what is subtracted from g in y = p (g - (a u + b w)), number by number; p null: 1.
template <class T>
struct TwoTerms {
  const T *p, *g;
  T a;
  const T* u;
  T b;
  const T* w;
};
/// @param y  filled; may be g
void subtract_terms(float* y, const TwoTerms<float>& terms, std::int64_t n);
void subtract_terms(double* y, const TwoTerms<double>& terms, std::int64_t n);

}  // namespace attnlab::rows
