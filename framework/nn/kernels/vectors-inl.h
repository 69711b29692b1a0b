// Vectors of the instruction set that a file is being compiled for: loads and stores of whole
// vectors and of parts, sums, exponentials.
//
// A file of kernels is compiled once for each instruction set (Highway's foreach_target.h), and the
// best one is chosen when the program runs; framework/nn/kernels/dispatch-inl.h says how.
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#if defined(ATTNLAB_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTNLAB_VECTORS_INL_H_
#undef ATTNLAB_VECTORS_INL_H_
#else
#define ATTNLAB_VECTORS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vec = hn::Vec<Tag<T>>;

/// Numbers of a vector. A constant: sets of variable length are not compiled for.
template <class T>
inline constexpr std::int64_t kLanes = hn::MaxLanes(Tag<T>());

/// `count` rounded up to whole vectors.
template <class T>
constexpr std::int64_t whole_vectors(std::int64_t count) {
  return (count + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
}

/// How much of a vector there is at a place: all of it, or the first `count` numbers.
struct Whole {};
struct Part {
  std::int64_t count;
};

template <class T>
HWY_INLINE Vec<T> load(const T* p, Whole) {
  return hn::LoadU(Tag<T>(), p);
}

/// Zeros behind the part; nothing is read there.
template <class T>
HWY_INLINE Vec<T> load(const T* p, Part part) {
#if HWY_TARGET <= HWY_AVX2
  const Tag<T> d;
  return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(part.count)), d, p);
#else
  T numbers[kLanes<T>] = {};
  for (std::int64_t i = 0; i < part.count; ++i) numbers[i] = p[i];
  return hn::LoadU(Tag<T>(), numbers);
#endif
}

template <class T>
HWY_INLINE void store(Vec<T> x, T* p, Whole) {
  hn::StoreU(x, Tag<T>(), p);
}

/// Nothing is written behind the part: another thread's numbers may lie there.
template <class T>
HWY_INLINE void store(Vec<T> x, T* p, Part part) {
#if HWY_TARGET <= HWY_AVX2
  const Tag<T> d;
  hn::BlendedStore(x, hn::FirstN(d, static_cast<std::size_t>(part.count)), d, p);
#else
  T numbers[kLanes<T>];
  hn::StoreU(x, Tag<T>(), numbers);
  for (std::int64_t i = 0; i < part.count; ++i) p[i] = numbers[i];
#endif
}

template <class T>
HWY_INLINE Vec<T> zeros() {
  return hn::Zero(Tag<T>());
}
template <class T>
HWY_INLINE Vec<T> all(T x) {
  return hn::Set(Tag<T>(), x);
}
template <class T>
HWY_INLINE T sum_of(Vec<T> x) {
  return hn::GetLane(hn::SumOfLanes(Tag<T>(), x));
}
template <class T>
HWY_INLINE T largest_of(Vec<T> x) {
  return hn::GetLane(hn::MaxOfLanes(Tag<T>(), x));
}

/// Calls work(i, part) for the vectors of a row of n numbers, from the first to the last.
template <class T, class Work>
HWY_INLINE void each_vector(std::int64_t n, const Work& work) {
  std::int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) work(i, Whole());
  if (i < n) work(i, Part{n - i});
}

/// <a, b> of n numbers.
template <class T>
HWY_INLINE T dot(const T* a, const T* b, std::int64_t n) {
  constexpr std::int64_t N = kLanes<T>;
  Vec<T> s0 = zeros<T>(), s1 = s0, s2 = s0, s3 = s0;  // one would wait for each sum before it
  std::int64_t i = 0;
  for (; i + 4 * N <= n; i += 4 * N) {
    s0 = hn::MulAdd(load(a + i, Whole()), load(b + i, Whole()), s0);
    s1 = hn::MulAdd(load(a + i + N, Whole()), load(b + i + N, Whole()), s1);
    s2 = hn::MulAdd(load(a + i + 2 * N, Whole()), load(b + i + 2 * N, Whole()), s2);
    s3 = hn::MulAdd(load(a + i + 3 * N, Whole()), load(b + i + 3 * N, Whole()), s3);
  }
  for (; i + N <= n; i += N) s0 = hn::MulAdd(load(a + i, Whole()), load(b + i, Whole()), s0);
  if (i < n) s1 = hn::MulAdd(load(a + i, Part{n - i}), load(b + i, Part{n - i}), s1);
  return sum_of<T>(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

/// y = a x
template <class T>
HWY_INLINE void scale(T a, const T* x, T* y, std::int64_t n) {
  each_vector<T>(n, [&](std::int64_t i, auto part)
                        HWY_ATTR { store<T>(hn::Mul(all(a), load(x + i, part)), y + i, part); });
}

/// y += a x
template <class T>
HWY_INLINE void add_scaled(T* y, T a, const T* x, std::int64_t n) {
  each_vector<T>(n, [&](std::int64_t i, auto part) HWY_ATTR {
    store<T>(hn::MulAdd(all(a), load(x + i, part), load(y + i, part)), y + i, part);
  });
}

/// e^x for x of at most a few units above 0, to about one unit in the last place; 0 below the
/// smallest normal number; NaN stays.
HWY_INLINE Vec<float> exponential(Vec<float> x) {
  const Tag<float> d;
  const hn::RebindToSigned<Tag<float>> whole;
  const Vec<float> rounder = all(12582912.F);  // 1.5 * 2^23: adding it rounds to an integer
  const Vec<float> shifted = hn::MulAdd(x, all(1.44269504088896341F), rounder);
  const Vec<float> n = hn::Sub(shifted, rounder);
  const Vec<float> r = hn::MulAdd(n, all(2.12194440e-4F), hn::NegMulAdd(n, all(0.693359375F), x));
  Vec<float> y = hn::MulAdd(all(1.9875691500e-4F), r, all(1.3981999507e-3F));  // Cephes' expf
  y = hn::MulAdd(y, r, all(8.3334519073e-3F));
  y = hn::MulAdd(y, r, all(4.1665795894e-2F));
  y = hn::MulAdd(y, r, all(1.6666665459e-1F));
  y = hn::MulAdd(y, r, all(5.0000001201e-1F));
  y = hn::Add(hn::MulAdd(y, hn::Mul(r, r), r), all(1.F));
  // 2^n: the integer lies in the low bits of the shifted number; 0x4b400000 are the rounder's.
  const auto bits =
      hn::ShiftLeft<23>(hn::Add(hn::BitCast(whole, shifted), hn::Set(whole, 127 - 0x4b400000)));
  y = hn::Mul(y, hn::BitCast(d, bits));
  return hn::IfThenElse(hn::Lt(x, all(-87.3F)), zeros<float>(), y);
}

HWY_INLINE Vec<double> exponential(Vec<double> x) {
  const Tag<double> d;
  const hn::RebindToSigned<Tag<double>> whole;
  const Vec<double> rounder = all(6755399441055744.0);  // 1.5 * 2^52
  const Vec<double> shifted = hn::MulAdd(x, all(1.4426950408889634074), rounder);
  const Vec<double> n = hn::Sub(shifted, rounder);
  const Vec<double> r = hn::NegMulAdd(n, all(1.42860682030941723212e-6),
                                      hn::NegMulAdd(n, all(6.93145751953125e-1), x));
  Vec<double> y = all(1 / 6227020800.0);  // Taylor's series up to r^13: |r| <= ln(2) / 2
  double factorial = 6227020800.0;
  for (int k = 13; k >= 1; --k) {
    factorial /= k;
    y = hn::MulAdd(y, r, all(1 / factorial));
  }
  const auto bits = hn::ShiftLeft<52>(
      hn::Add(hn::BitCast(whole, shifted), hn::Set(whole, 1023 - 0x4338000000000000LL)));
  y = hn::Mul(y, hn::BitCast(d, bits));
  return hn::IfThenElse(hn::Lt(x, all(-708.3)), zeros<double>(), y);
}

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
