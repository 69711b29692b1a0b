// Dropout by hashes: see the header.
#include "framework/nn/kernels/dropout.h"

#include <fmt/format.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <mutex>

#include "framework/nn/kernels/chunk_part.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/nn/kernels/dropout.cpp"
#include "framework/nn/kernels/dispatch-inl.h"
// (Above: before the vectors.)
#include "framework/nn/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

/// Of a chunk's numbers those that stay: bits of the same widths, all set or none.
/// @param places  within the chunk
HWY_INLINE Vec<std::uint32_t> staying(Vec<std::uint32_t> places, const ChunkPart& part) {
  const Tag<std::uint32_t> d;
  const auto first = static_cast<std::uint32_t>(part.keys);
  const auto second = static_cast<std::uint32_t>(part.keys >> 32);
  Vec<std::uint32_t> h = hn::Xor(places, hn::Set(d, first));
  h = hn::Mul(hn::Xor(h, hn::ShiftRight<16>(h)), hn::Set(d, 0x7feb352dU));
  h = hn::Add(hn::Xor(h, hn::ShiftRight<15>(h)), hn::Set(d, second));
  h = hn::Mul(h, hn::Set(d, 0x846ca68bU));
  h = hn::Xor(h, hn::ShiftRight<16>(h));
  return hn::VecFromMask(d, hn::Not(hn::Lt(h, hn::Set(d, part.limit))));
}

/// Calls work(place in the part, whole or part of a vector, bits of float32 numbers that stay).
template <class Work>
HWY_INLINE void each_staying(const ChunkPart& given, const Work& work) {
  const ChunkPart part = given;  // a copy: stores cannot reach it
  const Tag<std::uint32_t> d;
  const Vec<std::uint32_t> count_up = hn::Iota(d, 0);  // costs more than the hash
  each_vector<float>(part.end - part.begin, [&](std::int64_t i, auto piece) HWY_ATTR {
    const auto from = static_cast<std::uint32_t>(part.begin + i);
    const auto stays = staying(hn::Add(count_up, hn::Set(d, from)), part);
    work(i, piece, hn::BitCast(Tag<float>(), stays));
  });
}

void drop_floats(const float* x, float* y, const ChunkPart& part, float scale) {
  each_staying(part, [&](std::int64_t i, auto piece, Vec<float> stays) HWY_ATTR {
    const Vec<float> kept = hn::Mul(load(x + i, piece), all(scale));
    const auto mask = hn::MaskFromVec(stays);
    store<float>(hn::IfThenElseZero(mask, kept), y + i, piece);
  });
}

void fill_floats(float* y, const ChunkPart& part, float scale) {
  each_staying(part, [&](std::int64_t i, auto piece, Vec<float> stays)
                         HWY_ATTR { store<float>(hn::And(stays, all(scale)), y + i, piece); });
}

/// The same number by number.
HWY_INLINE bool stays(std::int64_t i, const ChunkPart& part) {
  const auto first = static_cast<std::uint32_t>(part.keys);
  const auto second = static_cast<std::uint32_t>(part.keys >> 32);
  std::uint32_t h = static_cast<std::uint32_t>(i) ^ first;
  h = (h ^ (h >> 16)) * 0x7feb352dU;
  h = ((h ^ (h >> 15)) + second) * 0x846ca68bU;
  h ^= h >> 16;
  return h >= part.limit;
}

void drop_doubles(const double* x, double* y, const ChunkPart& part, double scale) {
  for (std::int64_t i = part.begin; i < part.end; ++i) {
    y[i - part.begin] = stays(i, part) ? x[i - part.begin] * scale : 0;
  }
}

void fill_doubles(double* y, const ChunkPart& part, double scale) {
  for (std::int64_t i = part.begin; i < part.end; ++i) {
    y[i - part.begin] = stays(i, part) ? scale : 0;
  }
}

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnlab {
namespace {

HWY_EXPORT(drop_floats);
HWY_EXPORT(drop_doubles);
HWY_EXPORT(fill_floats);
HWY_EXPORT(fill_doubles);

/// Elements that share a pair of keys; places within are 32-bit.
constexpr std::int64_t kChunk = 16384;

/// Bits of a 64-bit word spread over all others (splitmix64's finaliser).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

void drop_part(const float* x, float* y, ChunkPart part, float scale) {
  ATTNLAB_DISPATCH(drop_floats)(x, y, part, scale);
}
void drop_part(const double* x, double* y, ChunkPart part, double scale) {
  ATTNLAB_DISPATCH(drop_doubles)(x, y, part, scale);
}
void fill_part(float* y, ChunkPart part, float scale) {
  ATTNLAB_DISPATCH(fill_floats)(y, part, scale);
}
void fill_part(double* y, ChunkPart part, double scale) {
  ATTNLAB_DISPATCH(fill_doubles)(y, part, scale);
}

/// Calls work(place in the piece, part of a chunk, 1 / (1 - p)) for the chunks that a piece
/// touches.
template <class T, class Work>
void each_part(std::int64_t first, std::int64_t count, const DropoutMask& mask, const Work& work) {
  const auto limit = static_cast<std::uint32_t>(std::llround(mask.p * 4294967296.0));
  const T scale = T(1 / (1 - mask.p));
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t chunk = (first + done) / kChunk, begin = (first + done) % kChunk;
    const std::int64_t end = std::min(kChunk, begin + count - done);
    work(done, ChunkPart{begin, end, mixed(mask.key + std::uint64_t(chunk)), limit}, scale);
    done += end - begin;
  }
}

template <class T>
void drop_range(const T* x, T* y, std::int64_t first, std::int64_t count, const DropoutMask& mask) {
  each_part<T>(first, count, mask, [&](std::int64_t at, const ChunkPart& part, T scale) {
    drop_part(x + at, y + at, part, scale);
  });
}

template <class T>
void fill_range(T* y, std::int64_t first, std::int64_t count, const DropoutMask& mask) {
  each_part<T>(first, count, mask, [&](std::int64_t at, const ChunkPart& part, T scale) {
    fill_part(y + at, part, scale);
  });
}

template <class T>
void drop_all(const T* x, T* y, std::int64_t count, const DropoutMask& mask) {
  at::parallel_for(0, count, 4 * kChunk, [&](std::int64_t begin, std::int64_t end) {
    drop_range(x + begin, y + begin, begin, end - begin, mask);
  });
}

Tensor dropped(const Tensor& given, const DropoutMask& mask) {
  const Tensor x = given.detach().contiguous();
  Tensor y = at::empty(x.sizes(), x.options());
  if (x.scalar_type() == at::kFloat) {
    drop_all(x.data_ptr<float>(), y.data_ptr<float>(), x.numel(), mask);
  } else {
    drop_all(x.data_ptr<double>(), y.data_ptr<double>(), x.numel(), mask);
  }
  return y;
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct HashDropout : public torch::autograd::Function<HashDropout> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const DropoutMask& mask) {
    context->saved_data["key"] = static_cast<std::int64_t>(mask.key);
    context->saved_data["p"] = mask.p;
    return dropped(x, mask);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const DropoutMask mask{static_cast<std::uint64_t>(context->saved_data["key"].toInt()),
                           context->saved_data["p"].toDouble()};
    // The gradient is dropped by the same mask; with gradients on, so that it can be
    // differentiated.
    return {at::GradMode::is_enabled() ? HashDropout::apply(gradients[0], mask)
                                       : dropped(gradients[0], mask),
            Tensor()};
  }
};

void check_probability(double p) {
  if (p >= 0 && p < 1) return;
  throw ShapeError(fmt::format("dropout: the probability must lie in [0, 1), found {}", p));
}

std::uint64_t draw_key() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();  // another handle of the same
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get<at::CPUGeneratorImpl>()->random64();
}

}  // namespace

DropoutMask draw_dropout(double p) {
  check_probability(p);
  return {p == 0 ? 0 : draw_key(), p};
}

Tensor dropout(const Tensor& x, double p) {
  check_probability(p);
  if (p == 0 || x.numel() == 0) return x;
  const bool own = x.device().is_cpu() && x.layout() == at::kStrided &&
                   (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble);
  if (!own) return at::dropout(x, p, true);
  const DropoutMask mask = draw_dropout(p);
  return at::GradMode::is_enabled() && x.requires_grad() ? HashDropout::apply(x, mask)
                                                         : dropped(x, mask);
}

void drop_piece(const float* x, float* y, std::int64_t first, std::int64_t count,
                const DropoutMask& mask) {
  drop_range(x, y, first, count, mask);
}

void drop_piece(const double* x, double* y, std::int64_t first, std::int64_t count,
                const DropoutMask& mask) {
  drop_range(x, y, first, count, mask);
}

void dropout_factors(float* y, std::int64_t first, std::int64_t count, const DropoutMask& mask) {
  fill_range(y, first, count, mask);
}

void dropout_factors(double* y, std::int64_t first, std::int64_t count, const DropoutMask& mask) {
  fill_range(y, first, count, mask);
}

}  // namespace attnlab
#endif
