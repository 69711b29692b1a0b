// Softmax attention of long sequences, block by block: see the header.
#include "framework/nn/kernels/block_attention.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <type_traits>

#include "framework/nn/kernels/block_sizes.h"
#include "framework/nn/kernels/row_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/nn/kernels/block_attention.cpp"
#include "framework/nn/kernels/dispatch-inl.h"
// (Above: before the vectors.)
#include "framework/nn/kernels/block_head-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

constexpr std::type_identity<RoundedPanels> kRounded{};
constexpr std::type_identity<Panels<float>> kAsGiven{};

// Tables of kernels hold plain functions.
void attend_float_blocks(const HeadwisePlan<float>& in, HeadShare part, const Heads<float>& out,
                         float* rows, float* room) {
  const auto work = [&](auto panels) HWY_ATTR {
    using P = typename decltype(panels)::type;
    attend_share<P>(in, part.head, part.share, part.shares, out, rows, Scratch<float>{room});
  };
  in.rounds ? work(kRounded) : work(kAsGiven);
}
void attend_double_blocks(const HeadwisePlan<double>& in, HeadShare part, const Heads<double>& out,
                          double* rows, double* room) {
  attend_share<Panels<double>>(in, part.head, part.share, part.shares, out, rows,
                               Scratch<double>{room});
}
void differentiate_float_blocks(const HeadwisePlan<float>& in, HeadShare part, const float* rows,
                                const Heads<const float>& out, const HeadwiseGradients<float>& to,
                                float* sums, float* room) {
  const auto work = [&](auto panels) HWY_ATTR {
    using P = typename decltype(panels)::type;
    differentiate_share<P>(in, part.head, part.share, part.shares, rows, out, to, sums,
                           Scratch<float>{room});
  };
  in.rounds ? work(kRounded) : work(kAsGiven);
}
void differentiate_double_blocks(const HeadwisePlan<double>& in, HeadShare part, const double* rows,
                                 const Heads<const double>& out,
                                 const HeadwiseGradients<double>& to, double* sums, double* room) {
  differentiate_share<Panels<double>>(in, part.head, part.share, part.shares, rows, out, to, sums,
                                      Scratch<double>{room});
}

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnlab {
namespace {

HWY_EXPORT(attend_float_blocks);
HWY_EXPORT(attend_double_blocks);
HWY_EXPORT(differentiate_float_blocks);
HWY_EXPORT(differentiate_double_blocks);

void attend(const HeadwisePlan<float>& in, HeadShare part, const Heads<float>& out, float* rows,
            float* room) {
  ATTNLAB_DISPATCH(attend_float_blocks)(in, part, out, rows, room);
}
void attend(const HeadwisePlan<double>& in, HeadShare part, const Heads<double>& out, double* rows,
            double* room) {
  ATTNLAB_DISPATCH(attend_double_blocks)(in, part, out, rows, room);
}
void differentiate(const HeadwisePlan<float>& in, HeadShare part, const float* rows,
                   const Heads<const float>& out, const HeadwiseGradients<float>& to, float* sums,
                   float* room) {
  ATTNLAB_DISPATCH(differentiate_float_blocks)(in, part, rows, out, to, sums, room);
}
void differentiate(const HeadwisePlan<double>& in, HeadShare part, const double* rows,
                   const Heads<const double>& out, const HeadwiseGradients<double>& to,
                   double* sums, double* room) {
  ATTNLAB_DISPATCH(differentiate_double_blocks)(in, part, rows, out, to, sums, room);
}

/// How many shares each head is cut into: every thread is to have one, and none more blocks than
/// there are.
std::int64_t shares_of(std::int64_t heads, std::int64_t length, std::int64_t block) {
  const std::int64_t threads = at::get_num_threads(), blocks = (length + block - 1) / block;
  return std::clamp<std::int64_t>((threads + heads - 1) / heads, 1, blocks);
}

/// Calls work(share of a head, its number among all, scratch of `size` numbers), in parallel.
template <class T, class Work>
void each_share(std::int64_t heads, std::int64_t shares, std::int64_t size, const Work& work) {
  at::parallel_for(0, heads * shares, 1, [&](std::int64_t begin, std::int64_t end) {
    const Room<T> room(size);
    for (std::int64_t i = begin; i < end; ++i) {
      work(HeadShare{i / shares, i % shares, shares}, i, room.get());
    }
  });
}

/// Numbers of scratch that relative positions need forward.
template <class T>
std::int64_t relative_scratch(const HeadwisePlan<T>& in) {
  if (!in.relative()) return 0;
  return relative_room<T>(in.dim, in.distances(), kQueryBlock, kKeyBlock);
}

/// Numbers of scratch that a share needs at most, on any instruction set.
template <class T>
std::int64_t forward_scratch(const HeadwisePlan<T>& in) {
  return panel_room<T>(in.dim, in.keys) + panel_room<T>(in.keys, in.channels) +
         kQueryBlock * (kBlockRow<T> + padded<T>(in.channels)) + kKeyBlock * padded<T>(in.dim) +
         relative_scratch(in);
}

template <class T>
std::int64_t backward_scratch(const HeadwisePlan<T>& in) {
  const std::int64_t wide = padded<T>(in.dim) + padded<T>(in.channels);
  return in.queries * wide + (in.dim + in.channels) * padded<T>(kKeyBlock) +
         kKeyBlock * (2 * wide + padded<T>(in.dim)) + 2 * kQueryBlock * kBlockRow<T> +
         padded<T>(in.queries) + kKeyBlock + relative_scratch(in) +
         (in.relative() ? (in.queries + in.distances()) * padded<T>(in.dim) : 0);
}

/// Gradients from their shares' sums, always in the same order.
/// @param parts  [B * H, shares, numbers_of_sums()]; the first share's are added to
template <class T>
void collect(const HeadwisePlan<T>& in, T* parts, std::int64_t heads, std::int64_t shares,
             const HeadwiseGradients<T>& to) {
  const std::int64_t width = padded<T>(in.dim), size = numbers_of_sums(in, to);
  at::parallel_for(0, heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t head = begin; head < end; ++head) {
      T* const sum = parts + head * shares * size;
      for (std::int64_t s = 1; s < shares; ++s) rows::add_scaled(sum, T(1), sum + s * size, size);
      const auto copy = [&](std::int64_t first, std::int64_t count, const Heads<T>& rows) {
        for (std::int64_t i = 0; i < count; ++i) {
          std::copy_n(sum + (first + i) * width, in.dim, rows.at(head).at(i, 0));
        }
      };
      copy(0, in.queries, to.q);
      const T* by = sum + rows_of_sums(in) * width;
      if (to.by_query != nullptr) {
        std::copy_n(by, in.queries, to.by_query + head * in.queries);
        by += padded<T>(in.queries);
      }
      if (to.by_distance != nullptr) {
        std::copy_n(by, in.distances(), to.by_distance + head * in.distances());
      }
      if (!in.relative()) continue;
      copy(in.queries, in.queries, to.relative_q);
      copy(2 * in.queries, in.distances(), to.relative_k);
    }
  });
}

}  // namespace

Tensor attend_blocks(const HeadwiseProblem& in, const Tensor& out) {
  const std::int64_t heads = in.q.size(0) * in.q.size(1), queries = in.q.size(2);
  Tensor rows = at::empty({heads, queries, 2}, in.q.options());
  AT_DISPATCH_FLOATING_TYPES(in.q.scalar_type(), "block_attention", [&] {
    const HeadwisePlan<scalar_t> plan(in);
    const Heads<scalar_t> to(out);
    scalar_t* const kept = rows.data_ptr<scalar_t>();
    const std::int64_t shares = shares_of(heads, queries, kQueryBlock);
    each_share<scalar_t>(
        heads, shares, forward_scratch(plan),
        [&](HeadShare part, std::int64_t, scalar_t* room) { attend(plan, part, to, kept, room); });
  });
  return rows;
}

void differentiate_blocks(const HeadwiseProblem& in, const Tensor& rows, const Tensor& out,
                          const Tensor& grad, const HeadGradients& given) {
  const std::int64_t heads = in.q.size(0) * in.q.size(1);
  const std::int64_t shares = shares_of(heads, in.k.size(2), kKeyBlock);
  AT_DISPATCH_FLOATING_TYPES(in.q.scalar_type(), "block_attention_backward", [&] {
    const HeadwisePlan<scalar_t> plan(in);
    const Heads<const scalar_t> y(out);
    using To = Heads<scalar_t>;
    const auto start = [](const Tensor& x) {
      return x.defined() ? x.data_ptr<scalar_t>() : nullptr;
    };
    const HeadwiseGradients<scalar_t> to{Heads<const scalar_t>(grad),
                                         To(given.q),
                                         To(given.k),
                                         To(given.v),
                                         To(given.bias),
                                         To(given.relative_q),
                                         To(given.relative_k),
                                         start(given.by_query),
                                         start(given.by_key),
                                         start(given.by_distance),
                                         start(given.sink)};
    const std::int64_t size = numbers_of_sums(plan, to);
    const Room<scalar_t> parts(heads * shares * size);
    const scalar_t* const kept = rows.data_ptr<scalar_t>();
    each_share<scalar_t>(heads, shares, backward_scratch(plan),
                         [&](HeadShare part, std::int64_t number, scalar_t* room) {
                           scalar_t* const sums = parts.get() + number * size;
                           differentiate(plan, part, kept, y, to, sums, room);
                         });
    collect(plan, parts.get(), heads, shares, to);
  });
}

}  // namespace attnlab
#endif
