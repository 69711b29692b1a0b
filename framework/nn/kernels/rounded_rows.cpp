// Rows of bfloat16: see the header.
#include "framework/nn/kernels/rounded_rows.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/nn/kernels/rounded_rows.cpp"
#include "framework/nn/kernels/dispatch-inl.h"
// (Above: before the vectors.)
#include "framework/nn/kernels/gelu-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

using Bits = hn::RebindToUnsigned<Tag<float>>;
using Halves = hn::Rebind<std::uint16_t, Tag<float>>;

HWY_INLINE Vec<float> load_wide(const at::BFloat16* p, Whole) {
  const auto halves = hn::LoadU(Halves(), reinterpret_cast<const std::uint16_t*>(p));
  return hn::BitCast(Tag<float>(), hn::ShiftLeft<16>(hn::PromoteTo(Bits(), halves)));
}
HWY_INLINE Vec<float> load_wide(const at::BFloat16* p, Part part) {
  at::BFloat16 numbers[kLanes<float>];
  std::memset(static_cast<void*>(numbers), 0, sizeof(numbers));
  std::memcpy(static_cast<void*>(numbers), p, part.count * sizeof(at::BFloat16));
  return load_wide(numbers, Whole());
}

HWY_INLINE void store_rounded(Vec<float> x, at::BFloat16* p, Whole) {
  const Bits d;
  const auto bits = hn::BitCast(d, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
  const auto near = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7fff))));
  const auto nan = hn::RebindMask(d, hn::Ne(x, x));
  const auto rounded = hn::IfThenElse(nan, hn::Set(d, 0x7fc0), near);
  const hn::RebindToSigned<Tag<float>> whole;
  hn::StoreU(hn::DemoteTo(Halves(), hn::BitCast(whole, rounded)), Halves(),
             reinterpret_cast<std::uint16_t*>(p));
}
HWY_INLINE void store_rounded(Vec<float> x, at::BFloat16* p, Part part) {
  at::BFloat16 numbers[kLanes<float>];
  store_rounded(x, numbers, Whole());
  std::memcpy(static_cast<void*>(p), numbers, part.count * sizeof(at::BFloat16));
}

template <class Place>
HWY_INLINE void add_to(float* sums, Vec<float> x, Place part) {
  if (sums != nullptr) store<float>(hn::Add(load(sums, part), x), sums, part);
}
template <class Place>
HWY_INLINE Vec<float> bias_at(const float* bias, std::int64_t i, Place part) {
  return bias != nullptr ? load(bias + i, part) : zeros<float>();
}
HWY_INLINE float* from(float* sums, std::int64_t i) { return sums != nullptr ? sums + i : nullptr; }

/// Calls work(place, i, part) for the vectors of all rows: place i of row r is number place.
template <class Work>
HWY_INLINE void each_of_rows(std::int64_t count, std::int64_t n, const Work& work) {
  for (std::int64_t r = 0; r < count; ++r) {
    each_vector<float>(n, [&](std::int64_t i, auto part) HWY_ATTR { work(r * n + i, i, part); });
  }
}

void round_all(const float* x, at::BFloat16* y, float* sums, std::int64_t count, std::int64_t n) {
  each_of_rows(count, n, [&](std::int64_t place, std::int64_t i, auto part) HWY_ATTR {
    const Vec<float> at = load(x + place, part);
    add_to(from(sums, i), at, part);
    store_rounded(at, y + place, part);
  });
}

void widen_all(const at::BFloat16* x, const float* bias, float* y, std::int64_t count,
               std::int64_t n) {
  each_of_rows(count, n, [&](std::int64_t place, std::int64_t i, auto part) HWY_ATTR {
    store<float>(hn::Add(load_wide(x + place, part), bias_at(bias, i, part)), y + place, part);
  });
}

template <Activation activation>
HWY_INLINE Vec<float> activated_at(Vec<float> x) {
  if constexpr (activation == Activation::gelu) return hn::Mul(x, normal_at(x).below);
  return hn::IfThenElse(hn::Lt(x, zeros<float>()), zeros<float>(), x);  // NaN stays
}

/// dy act'(x)
template <Activation activation>
HWY_INLINE Vec<float> gradient_at(Vec<float> x, Vec<float> dy) {
  if constexpr (activation == Activation::gelu) return hn::Mul(dy, slope_at(x, normal_at(x)));
  return hn::IfThenElse(hn::Le(x, zeros<float>()), zeros<float>(), dy);
}

template <Activation activation>
HWY_INLINE void activate_all(const at::BFloat16* x, const float* bias, at::BFloat16* y,
                             std::int64_t count, std::int64_t n) {
  each_of_rows(count, n, [&](std::int64_t place, std::int64_t i, auto part) HWY_ATTR {
    const Vec<float> at = hn::Add(load_wide(x + place, part), bias_at(bias, i, part));
    store_rounded(activated_at<activation>(at), y + place, part);
  });
}

template <Activation activation>
HWY_INLINE void deactivate_all(const at::BFloat16* x, const float* bias, at::BFloat16* dy,
                               float* sums, std::int64_t count, std::int64_t n) {
  each_of_rows(count, n, [&](std::int64_t place, std::int64_t i, auto part) HWY_ATTR {
    const Vec<float> at = hn::Add(load_wide(x + place, part), bias_at(bias, i, part));
    const Vec<float> dx = gradient_at<activation>(at, load_wide(dy + place, part));
    add_to(from(sums, i), dx, part);
    store_rounded(dx, dy + place, part);
  });
}

void activate_by_gelu(const at::BFloat16* x, const float* bias, at::BFloat16* y, std::int64_t count,
                      std::int64_t n) {
  activate_all<Activation::gelu>(x, bias, y, count, n);
}
void activate_by_relu(const at::BFloat16* x, const float* bias, at::BFloat16* y, std::int64_t count,
                      std::int64_t n) {
  activate_all<Activation::relu>(x, bias, y, count, n);
}
void deactivate_gelu(const at::BFloat16* x, const float* bias, at::BFloat16* dy, float* sums,
                     std::int64_t count, std::int64_t n) {
  deactivate_all<Activation::gelu>(x, bias, dy, sums, count, n);
}
void deactivate_relu(const at::BFloat16* x, const float* bias, at::BFloat16* dy, float* sums,
                     std::int64_t count, std::int64_t n) {
  deactivate_all<Activation::relu>(x, bias, dy, sums, count, n);
}

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnlab {
namespace {

HWY_EXPORT(round_all);
HWY_EXPORT(widen_all);
HWY_EXPORT(activate_by_gelu);
HWY_EXPORT(activate_by_relu);
HWY_EXPORT(deactivate_gelu);
HWY_EXPORT(deactivate_relu);

/// Numbers below which a thread is not worth waking.
constexpr std::int64_t kThreadWork = 16 * 1024;

const float* numbers(const Tensor& bias) {
  return bias.defined() && bias.numel() > 0 ? bias.data_ptr<float>() : nullptr;
}

/// Calls work(first row, how many) in parallel.
template <class Work>
void each_share(const Tensor& x, const Work& work) {
  const std::int64_t columns = std::max<std::int64_t>(1, x.size(1));
  at::parallel_for(0, x.size(0), std::max<std::int64_t>(1, kThreadWork / columns),
                   [&](std::int64_t begin, std::int64_t end) { work(begin, end - begin); });
}

/// The same where sums of columns are asked for: work(first, how many, sums or null). Shares are as
/// many as threads, whichever of them is faster, and are added up in their order.
template <class Work>
void each_summed_share(const Tensor& x, const Tensor& sums, const Work& work) {
  if (!sums.defined()) {
    each_share(x, [&](std::int64_t first, std::int64_t count) { work(first, count, nullptr); });
    return;
  }
  const std::int64_t rows = x.size(0), columns = x.size(1);
  const std::int64_t most = std::max<std::int64_t>(1, rows * columns / kThreadWork);
  const std::int64_t shares = std::min<std::int64_t>(at::get_num_threads(), most);
  const Tensor parts = at::zeros({shares, columns}, sums.options());
  at::parallel_for(0, shares, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      const std::int64_t first = s * rows / shares, past = (s + 1) * rows / shares;
      work(first, past - first, parts.data_ptr<float>() + s * columns);
    }
  });
  Tensor(sums).copy_(parts.sum(0));
}

}  // namespace

Tensor rounded(const Tensor& x, const Tensor& sums) {
  const Tensor dense = x.contiguous().view({-1, x.size(-1)});
  Tensor y = at::empty(dense.sizes(), dense.options().dtype(at::kBFloat16));
  const float* const from = dense.data_ptr<float>();
  at::BFloat16* const to = y.data_ptr<at::BFloat16>();
  const std::int64_t n = dense.size(1);
  each_summed_share(dense, sums, [&](std::int64_t first, std::int64_t count, float* part) {
    ATTNLAB_DISPATCH(round_all)(from + first * n, to + first * n, part, count, n);
  });
  return y;
}

Tensor widened(const Tensor& x, const Tensor& bias, at::IntArrayRef sizes) {
  // Not a view of a matrix: autograd lets nobody write into a view that comes from a function.
  Tensor y = at::empty(sizes, x.options().dtype(at::kFloat));
  const at::BFloat16* const from = x.data_ptr<at::BFloat16>();
  const float* const add = numbers(bias);
  float* const to = y.data_ptr<float>();
  const std::int64_t n = x.size(1);
  each_share(x, [&](std::int64_t first, std::int64_t count) {
    ATTNLAB_DISPATCH(widen_all)(from + first * n, add, to + first * n, count, n);
  });
  return y;
}

Tensor activated(Activation activation, const Tensor& h, const Tensor& bias, bool in_place) {
  Tensor y = in_place ? h : at::empty(h.sizes(), h.options());
  const at::BFloat16* const from = h.data_ptr<at::BFloat16>();
  const float* const add = numbers(bias);
  at::BFloat16* const to = y.data_ptr<at::BFloat16>();
  const std::int64_t n = h.size(1);
  each_share(h, [&](std::int64_t first, std::int64_t count) {
    if (activation == Activation::gelu) {
      ATTNLAB_DISPATCH(activate_by_gelu)(from + first * n, add, to + first * n, count, n);
    } else {
      ATTNLAB_DISPATCH(activate_by_relu)(from + first * n, add, to + first * n, count, n);
    }
  });
  return y;
}

void deactivate(Activation activation, const Tensor& h, const Tensor& bias, const Tensor& grad,
                const Tensor& sums) {
  const at::BFloat16* const from = h.data_ptr<at::BFloat16>();
  const float* const add = numbers(bias);
  at::BFloat16* const to = grad.data_ptr<at::BFloat16>();
  const std::int64_t n = h.size(1);
  each_summed_share(h, sums, [&](std::int64_t first, std::int64_t count, float* part) {
    if (activation == Activation::gelu) {
      ATTNLAB_DISPATCH(deactivate_gelu)(from + first * n, add, to + first * n, part, count, n);
    } else {
      ATTNLAB_DISPATCH(deactivate_relu)(from + first * n, add, to + first * n, part, count, n);
    }
  });
}

}  // namespace attnlab
#endif
