// Dropout by hashes: see the header.
#include "framework/nn/dropout.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <mutex>

#include "framework/core/vector_clones.h"

namespace attnlab {
namespace {

/// Elements that share a pair of keys; places within are 32-bit.
constexpr std::int64_t kChunk = 16384;

struct DropoutMask {
  std::uint64_t key = 0;
  double p = 0;
};

/// Bits of a 64-bit word spread over all others (splitmix64's finaliser).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

template <class T>
[[gnu::always_inline]] inline void drop_chunk(const T* x, T* y, std::int64_t count,
                                              std::uint64_t keys, std::uint32_t limit, T scale) {
  const auto first = static_cast<std::uint32_t>(keys), second = std::uint32_t(keys >> 32);
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t h = static_cast<std::uint32_t>(i) ^ first;
    h = (h ^ (h >> 16)) * 0x7feb352dU;
    h = ((h ^ (h >> 15)) + second) * 0x846ca68bU;
    h ^= h >> 16;
    y[i] = h >= limit ? x[i] * scale : T(0);
  }
}

ATTNLAB_VECTOR_CLONES
void drop_chunk_of(const float* __restrict__ x, float* __restrict__ y, std::int64_t count,
                   std::uint64_t keys, std::uint32_t limit, float scale) {
  drop_chunk(x, y, count, keys, limit, scale);
}

ATTNLAB_VECTOR_CLONES
void drop_chunk_of(const double* __restrict__ x, double* __restrict__ y, std::int64_t count,
                   std::uint64_t keys, std::uint32_t limit, double scale) {
  drop_chunk(x, y, count, keys, limit, scale);
}

template <class T>
void drop_all(const T* x, T* y, std::int64_t count, const DropoutMask& mask) {
  const auto limit = static_cast<std::uint32_t>(std::llround(mask.p * 4294967296.0));
  const T scale = T(1 / (1 - mask.p));
  const std::int64_t chunks = (count + kChunk - 1) / kChunk;
  at::parallel_for(0, chunks, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      const std::int64_t from = c * kChunk;
      drop_chunk_of(x + from, y + from, std::min(kChunk, count - from),
                    mixed(mask.key + std::uint64_t(c)), limit, scale);
    }
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

std::uint64_t draw_key() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();  // another handle of the same
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get<at::CPUGeneratorImpl>()->random64();
}

}  // namespace

Tensor dropout(const Tensor& x, double p) {
  if (!(p >= 0 && p < 1)) {
    throw ShapeError("dropout: the probability must lie in [0, 1), found " + std::to_string(p));
  }
  if (p == 0 || x.numel() == 0) return x;
  const bool own = x.device().is_cpu() && x.layout() == at::kStrided &&
                   (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble);
  if (!own) return at::dropout(x, p, true);
  const DropoutMask mask{draw_key(), p};
  return at::GradMode::is_enabled() && x.requires_grad() ? HashDropout::apply(x, mask)
                                                         : dropped(x, mask);
}

}  // namespace attnlab
