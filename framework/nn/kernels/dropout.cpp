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

#include "framework/base/vector_clones.h"

namespace attnlab {
namespace {

/// Elements that share a pair of keys; places within are 32-bit.
constexpr std::int64_t kChunk = 16384;

/// Bits of a 64-bit word spread over all others (splitmix64's finaliser).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Whether a chunk's number i stays.
[[gnu::always_inline]] inline bool stays(std::int64_t i, std::uint64_t keys, std::uint32_t limit) {
  const auto first = static_cast<std::uint32_t>(keys), second = std::uint32_t(keys >> 32);
  std::uint32_t h = static_cast<std::uint32_t>(i) ^ first;
  h = (h ^ (h >> 16)) * 0x7feb352dU;
  h = ((h ^ (h >> 15)) + second) * 0x846ca68bU;
  h ^= h >> 16;
  return h >= limit;
}

/// Numbers [begin, end) of a chunk; x and y are theirs.
struct ChunkPart {
  std::int64_t begin, end;
  std::uint64_t keys;
  std::uint32_t limit;
};

template <class T>
[[gnu::always_inline]] inline void drop(const T* x, T* y, const ChunkPart& part, T scale) {
  for (std::int64_t i = part.begin; i < part.end; ++i) {
    y[i - part.begin] = stays(i, part.keys, part.limit) ? x[i - part.begin] * scale : T(0);
  }
}

template <class T>
[[gnu::always_inline]] inline void fill(T* y, const ChunkPart& part, T scale) {
  for (std::int64_t i = part.begin; i < part.end; ++i) {
    y[i - part.begin] = stays(i, part.keys, part.limit) ? scale : T(0);
  }
}

ATTNLAB_VECTOR_CLONES
void drop_part(const float* __restrict__ x, float* __restrict__ y, ChunkPart part, float scale) {
  drop(x, y, part, scale);
}

ATTNLAB_VECTOR_CLONES
void drop_part(const double* __restrict__ x, double* __restrict__ y, ChunkPart part, double scale) {
  drop(x, y, part, scale);
}

ATTNLAB_VECTOR_CLONES
void fill_part(float* y, ChunkPart part, float scale) { fill(y, part, scale); }

ATTNLAB_VECTOR_CLONES
void fill_part(double* y, ChunkPart part, double scale) { fill(y, part, scale); }

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
