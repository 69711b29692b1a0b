// Terms of logits (logit_terms.h), a row of a block at a time.
#include <hwy/highway.h>

#include "framework/nn/kernels/headwise.h"
#include "framework/nn/kernels/softmax-inl.h"
#include "framework/nn/kernels/vectors-inl.h"

#if defined(ATTNLAB_TERMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTNLAB_TERMS_INL_H_
#undef ATTNLAB_TERMS_INL_H_
#else
#define ATTNLAB_TERMS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

/// near / below where |x| is small, (1 - e^-2|x|) / (1 + e^-2|x|) elsewhere; with the sign of x.
/// @param size  |x|
template <class T>
HWY_INLINE Vec<T> tanh_of(Vec<T> x, Vec<T> size, Vec<T> near, Vec<T> below) {
  const Vec<T> e = exponential(hn::Mul(size, all(T(-2)))), one = all(T(1));
  const auto small = hn::Lt(size, all(T(0.625)));
  const Vec<T> above = hn::IfThenElse(small, near, hn::Sub(one, e));
  return hn::CopySign(hn::Div(above, hn::IfThenElse(small, below, hn::Add(one, e))), x);
}

/// tanh x to a few units in the last place; NaN stays. Cephes' polynomials near 0.
HWY_INLINE Vec<float> hyperbolic_tangent(Vec<float> x) {
  const Vec<float> size = hn::Abs(x), z = hn::Mul(x, x);
  Vec<float> y = hn::MulAdd(all(-5.70498872745e-3F), z, all(2.06390887954e-2F));
  y = hn::MulAdd(y, z, all(-5.37397155531e-2F));
  y = hn::MulAdd(y, z, all(1.33314422036e-1F));
  y = hn::MulAdd(y, z, all(-3.33332819422e-1F));
  return tanh_of<float>(x, size, hn::MulAdd(hn::Mul(y, z), size, size), all(1.F));
}

HWY_INLINE Vec<double> hyperbolic_tangent(Vec<double> x) {
  const Vec<double> size = hn::Abs(x), z = hn::Mul(x, x);
  Vec<double> p = hn::MulAdd(all(-9.64399179425052238628e-1), z, all(-9.92877231001918586564e1));
  p = hn::MulAdd(p, z, all(-1.61468768441708447952e3));
  Vec<double> q = hn::Add(z, all(1.12811678491632931402e2));
  q = hn::MulAdd(q, z, all(2.23548839060100448583e3));
  q = hn::MulAdd(q, z, all(4.84406305325125486048e3));
  return tanh_of<double>(x, size, hn::Mul(size, hn::MulAdd(p, z, q)), q);
}

/// y *= x, number by number.
template <class T>
HWY_INLINE void multiply_row(T* y, const T* x, std::int64_t count) {
  each_vector<T>(count, [&](std::int64_t j, auto part) HWY_ATTR {
    store<T>(hn::Mul(load(y + j, part), load(x + j, part)), y + j, part);
  });
}

template <class T>
HWY_INLINE T sum_of_row(const T* x, std::int64_t count) {
  Vec<T> sums = zeros<T>();
  each_vector<T>(
      count, [&](std::int64_t j, auto part) HWY_ATTR { sums = hn::Add(sums, load(x + j, part)); });
  return sum_of<T>(sums);
}

/// l -> cap tanh(l / cap). @param slopes  filled with 1 - tanh²; null: not wanted
template <class T>
HWY_INLINE void cap_row(T cap, T* row, std::int64_t count, T* slopes) {
  const Vec<T> by = all(cap), inverse = all(1 / cap), one = all(T(1));
  each_vector<T>(count, [&](std::int64_t j, auto part) HWY_ATTR {
    const Vec<T> t = hyperbolic_tangent(hn::Mul(load(row + j, part), inverse));
    store<T>(hn::Mul(by, t), row + j, part);
    if (slopes != nullptr) store<T>(hn::NegMulAdd(t, t, one), slopes + j, part);
  });
}

/// l -> |l|, or 0 below kNoSign. @param signs  filled with -1, 0 or 1; of NaN 1 or -1
template <class T>
HWY_INLINE void split_signs(T* row, std::int64_t count, T* signs) {
  const Vec<T> one = all(T(1)), least = all(T(kNoSign));
  each_vector<T>(count, [&](std::int64_t j, auto part) HWY_ATTR {
    const Vec<T> l = load(row + j, part), size = hn::Abs(l);
    const auto none = hn::Lt(size, least);
    store<T>(hn::IfThenZeroElse(none, hn::CopySign(one, l)), signs + j, part);
    store<T>(hn::IfThenZeroElse(none, size), row + j, part);
  });
}

/// Adds a_i - b_j for keys [first, first + count).
template <class T>
HWY_INLINE void add_sums(const HeadwisePlan<T>& in, std::int64_t head, std::int64_t i,
                         std::int64_t first, T* row, std::int64_t count) {
  const T a = in.at_queries.data == nullptr ? T(0) : *in.at_queries.at(head).at(i, 0);
  const T* const b = in.at_keys.data == nullptr ? nullptr : in.at_keys.at(head).at(first, 0);
  const Vec<T> whole = all(a);
  each_vector<T>(count, [&](std::int64_t j, auto part) HWY_ATTR {
    const Vec<T> more = b == nullptr ? whole : hn::Sub(whole, load(b + j, part));
    store<T>(hn::Add(load(row + j, part), more), row + j, part);
  });
}

/// Scaled products of query i and keys [first, first + count) to logits, before any is hidden.
/// @param slopes  filled with the logits' slopes where there is a cap; null: not wanted
template <class T>
HWY_INLINE void complete_logits(const HeadwisePlan<T>& in, std::int64_t head, std::int64_t i,
                                std::int64_t first, T* row, std::int64_t count, T* slopes) {
  if (in.cap > 0) cap_row(in.cap, row, count, slopes);
  add_bias(in, head, i, first, row, count);
  if (in.by_distance.data != nullptr) {
    add_scaled(row, T(1), in.by_distance.at(head).at(i, first), count);
  }
  if (in.at_queries.data != nullptr || in.at_keys.data != nullptr) {
    add_sums(in, head, i, first, row, count);
  }
}

/// The factor of a rule's weights of query i.
template <class T>
HWY_INLINE T rule_factor(const HeadwisePlan<T>& in, std::int64_t head, std::int64_t i) {
  return in.factor.data == nullptr ? T(1) : *in.factor.at(head).at(i, 0);
}

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
