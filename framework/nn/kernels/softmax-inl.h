// Softmax of rows, its gradient, and what rows do not see.
#include <hwy/highway.h>

#include "framework/nn/kernels/headwise.h"
#include "framework/nn/kernels/vectors-inl.h"

#if defined(ATTNLAB_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTNLAB_SOFTMAX_INL_H_
#undef ATTNLAB_SOFTMAX_INL_H_
#else
#define ATTNLAB_SOFTMAX_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

/// The logit of a hidden pair: below all others, yet finite.
template <class T>
inline constexpr T kHiddenLogit = std::numeric_limits<T>::lowest();

/// Puts the lowest number where a mask hides a logit. @returns whether one is seen.
template <class T>
HWY_INLINE bool hide_masked(T* row, const bool* hidden, std::int64_t step, std::int64_t count) {
  std::int64_t seen = 0;
  for (std::int64_t j = 0; j < count; ++j) {
    row[j] = hidden[j * step] ? kHiddenLogit<T> : row[j];
    seen += hidden[j * step] ? 0 : 1;
  }
  return seen > 0;
}

/// The logits of query i to keys [first, first + count): the lowest number where one is hidden.
/// @returns whether one is not.
template <class T>
HWY_INLINE bool hide(const HeadwisePlan<T>& in, std::int64_t head, std::int64_t i,
                     std::int64_t first, T* row, std::int64_t count) {
  if (in.all_seen()) return true;
  std::int64_t begin = 0, end = count;
  if (in.rules.any()) {
    const KeyRange seen = in.rules.seen(i, in.queries, in.keys);
    begin = std::clamp<std::int64_t>(seen.begin - first, 0, count);
    end = std::clamp<std::int64_t>(seen.end - first, begin, count);
    std::fill(row, row + begin, kHiddenLogit<T>);
    std::fill(row + end, row + count, kHiddenLogit<T>);
  }
  if (begin == end || in.hidden.data == nullptr) return begin < end;
  const Matrix<const bool> hidden = in.hidden.at(head);
  const bool* from = hidden.at(i, first + begin);
  return hidden.column == 1 ? hide_masked(row + begin, from, 1, end - begin)
                            : hide_masked(row + begin, from, hidden.column, end - begin);
}

/// The largest of `count` numbers; whole vectors are read.
template <class T>
HWY_INLINE T largest_in(const T* row, std::int64_t count) {
  Vec<T> tops = all(kHiddenLogit<T>);
  std::int64_t j = 0;
  for (; j + kLanes<T> <= count; j += kLanes<T>) tops = hn::Max(load(row + j, Whole()), tops);
  if (j < count) {
    const auto within = hn::FirstN(Tag<T>(), static_cast<std::size_t>(count - j));
    tops = hn::IfThenElse(within, hn::Max(load(row + j, Whole()), tops), tops);
  }
  return largest_of<T>(tops);
}

/// e^(x - top) in place; whole vectors, what lies behind `count` becomes 0. @returns the sum.
template <class T>
HWY_INLINE T exponentiate(T* row, std::int64_t count, T top) {
  const Vec<T> below = all(top);
  Vec<T> sums = zeros<T>();
  std::int64_t j = 0;
  for (; j + kLanes<T> <= count; j += kLanes<T>) {
    const Vec<T> x = exponential(hn::Sub(load(row + j, Whole()), below));
    sums = hn::Add(sums, x);
    store<T>(x, row + j, Whole());
  }
  if (j < count) {
    const Tag<T> d;
    const Vec<T> x = hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(count - j)),
                                        exponential(hn::Sub(load(row + j, Whole()), below)));
    sums = hn::Add(sums, x);
    store<T>(x, row + j, Whole());
  }
  return sum_of<T>(sums);
}

/// Logits of a row to weights, in place; whole vectors, padding becomes 0. Hidden numbers hold the
/// lowest one; at least one must not.
template <class T>
HWY_INLINE void softmax_row(T* row, std::int64_t count) {
  const T sum = exponentiate(row, count, largest_in(row, count));
  scale(1 / sum, row, row, whole_vectors<T>(count));
}

/// dL = scale * P (dP - <dP, P>), of padded rows; dL in place of dP.
template <class T>
HWY_INLINE void softmax_gradient_row(const T* p, T* dp, std::int64_t count, T scale) {
  const Vec<T> along = all(dot(p, dp, count)), by = all(scale);
  for (std::int64_t j = 0; j < count; j += kLanes<T>) {
    const Vec<T> away = hn::Sub(load(dp + j, Whole()), along);
    store<T>(hn::Mul(hn::Mul(load(p + j, Whole()), away), by), dp + j, Whole());
  }
}

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
