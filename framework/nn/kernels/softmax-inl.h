// Softmax of rows, its gradient, and what rows do not see.
#include <hwy/highway.h>

#include "framework/nn/kernels/headwise.h"
#include "framework/nn/kernels/product-inl.h"
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

/// One row of a mask. @param step  from one key to the next
struct MaskRow {
  const bool* first;
  std::int64_t step;
};

/// Puts a number where a mask hides a logit. @returns whether one is seen.
template <class T, class Step>
HWY_INLINE bool hide_masked(T* row, MaskRow a, MaskRow b, Step step, std::int64_t count, T hidden) {
  std::int64_t seen = 0;
  for (std::int64_t j = 0; j < count; ++j) {
    const bool sees =
        static_cast<int>(a.first[j * step(a)]) & static_cast<int>(b.first[j * step(b)]);
    row[j] = sees ? row[j] : hidden;
    seen += sees ? 1 : 0;
  }
  return seen > 0;
}

/// What query i may see from key `first` on; one mask, twice, where there is no other.
template <class T>
HWY_INLINE bool hide_by_masks(const HeadwisePlan<T>& in, std::int64_t head, std::int64_t i,
                              std::int64_t first, T* row, std::int64_t count, T hidden) {
  const auto row_of = [&](const Heads<const bool>& mask) {
    const Matrix<const bool> all = mask.at(head);
    return MaskRow{all.at(i, first), all.column};
  };
  const MaskRow a = row_of(in.pairs.data != nullptr ? in.pairs : in.valid);
  const MaskRow b = in.valid.data != nullptr ? row_of(in.valid) : a;
  if (a.step == 1 && b.step == 1) {
    return hide_masked(
        row, a, b, [](MaskRow) { return 1; }, count, hidden);
  }
  return hide_masked(
      row, a, b, [](MaskRow mask) { return mask.step; }, count, hidden);
}

/// Adds the bias of query i to keys [first, first + count).
template <class T>
HWY_INLINE void add_bias(const HeadwisePlan<T>& in, std::int64_t head, std::int64_t i,
                         std::int64_t first, T* row, std::int64_t count) {
  if (in.bias.data == nullptr) return;
  const Matrix<const T> bias = in.bias.at(head);
  const T* from = bias.at(i, first);
  if (bias.column == 1) return add_scaled(row, T(1), from, count);
  for (std::int64_t j = 0; j < count; ++j) row[j] += from[j * bias.column];
}

/// The logits of query i to keys [first, first + count): the lowest number, or another, where one
/// is hidden. @returns whether one is not.
template <class T>
HWY_INLINE bool hide(const HeadwisePlan<T>& in, std::int64_t head, std::int64_t i,
                     std::int64_t first, T* row, std::int64_t count, T hidden = kHiddenLogit<T>) {
  if (in.all_seen()) return true;
  std::int64_t begin = 0, end = count;
  if (in.rules.any()) {
    const KeyRange seen = in.rules.seen(i, in.queries, in.keys);
    begin = std::clamp<std::int64_t>(seen.begin - first, 0, count);
    end = std::clamp<std::int64_t>(seen.end - first, begin, count);
    std::fill(row, row + begin, hidden);
    std::fill(row + end, row + count, hidden);
  }
  if (begin == end || (in.pairs.data == nullptr && in.valid.data == nullptr)) return begin < end;
  return hide_by_masks(in, head, i, first + begin, row + begin, end - begin, hidden);
}

/// The keys that queries [first, past) see, from a panel's first one to a panel's end.
template <class T>
HWY_INLINE KeyRange keys_seen(const HeadwisePlan<T>& in, std::int64_t first, std::int64_t past) {
  if (!in.rules.any()) return {0, in.keys};
  const std::int64_t begin = in.rules.seen(first, in.queries, in.keys).begin;
  const std::int64_t end = in.rules.seen(past - 1, in.queries, in.keys).end;
  if (begin >= end) return {0, 0};
  return {begin / kWide<T> * kWide<T>,
          std::min(in.keys, (end + kWide<T> - 1) / kWide<T> * kWide<T>)};
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
