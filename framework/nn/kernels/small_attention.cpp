// Softmax attention of small heads on the CPU: see the header.
#include "framework/nn/kernels/small_attention.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "framework/nn/kernels/small_attention.cpp"
#include "framework/nn/kernels/dispatch-inl.h"
// (Above: before the vectors.)
#include "framework/nn/kernels/single_query-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

template <class T>
void attend_range(const HeadwisePlan<T>& in, T* kept, const Heads<T>& out, std::int64_t begin,
                  std::int64_t end, T* room) {
  const bool single = in.queries == 1;
  for (std::int64_t i = begin; i < end; ++i) {
    single ? attend_query(in, i, kept, out, {room}) : attend_head(in, i, kept, out, {room});
  }
}

template <class T>
void differentiate_range(const HeadwisePlan<T>& in, T* weights, const HeadwiseGradients<T>& to,
                         std::int64_t begin, std::int64_t end, T* room) {
  const bool single = in.queries == 1;
  for (std::int64_t i = begin; i < end; ++i) {
    single ? differentiate_query(in, i, weights, to, {room})
           : differentiate_head(in, i, weights, to, {room});
  }
}

// Tables of kernels hold plain functions.
void attend_floats(const HeadwisePlan<float>& in, float* kept, const Heads<float>& out,
                   std::int64_t begin, std::int64_t end, float* room) {
  attend_range(in, kept, out, begin, end, room);
}
void attend_doubles(const HeadwisePlan<double>& in, double* kept, const Heads<double>& out,
                    std::int64_t begin, std::int64_t end, double* room) {
  attend_range(in, kept, out, begin, end, room);
}
void differentiate_floats(const HeadwisePlan<float>& in, float* weights,
                          const HeadwiseGradients<float>& to, std::int64_t begin, std::int64_t end,
                          float* room) {
  differentiate_range(in, weights, to, begin, end, room);
}
void differentiate_doubles(const HeadwisePlan<double>& in, double* weights,
                           const HeadwiseGradients<double>& to, std::int64_t begin,
                           std::int64_t end, double* room) {
  differentiate_range(in, weights, to, begin, end, room);
}

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnlab {
namespace {

HWY_EXPORT(attend_floats);
HWY_EXPORT(attend_doubles);
HWY_EXPORT(differentiate_floats);
HWY_EXPORT(differentiate_doubles);

void attend(const HeadwisePlan<float>& in, float* kept, const Heads<float>& out, std::int64_t begin,
            std::int64_t end, float* room) {
  ATTNLAB_DISPATCH(attend_floats)(in, kept, out, begin, end, room);
}
void attend(const HeadwisePlan<double>& in, double* kept, const Heads<double>& out,
            std::int64_t begin, std::int64_t end, double* room) {
  ATTNLAB_DISPATCH(attend_doubles)(in, kept, out, begin, end, room);
}
void differentiate(const HeadwisePlan<float>& in, float* weights,
                   const HeadwiseGradients<float>& to, std::int64_t begin, std::int64_t end,
                   float* room) {
  ATTNLAB_DISPATCH(differentiate_floats)(in, weights, to, begin, end, room);
}
void differentiate(const HeadwisePlan<double>& in, double* weights,
                   const HeadwiseGradients<double>& to, std::int64_t begin, std::int64_t end,
                   double* room) {
  ATTNLAB_DISPATCH(differentiate_doubles)(in, weights, to, begin, end, room);
}

// Up to these sizes everything of a head stays in a core's second-level cache, and its weights are
// worth keeping. Few queries pay for bringing many keys to form only where those lie in the first
// level.
constexpr std::int64_t kLogitBytes = 256 * 1024;
constexpr std::int64_t kChannels = 256;
constexpr std::int64_t kFewQueries = 16;
constexpr std::int64_t kKeysOfFew = 16 * 1024;
// Multiply-adds below which a thread is not worth waking.
constexpr std::int64_t kThreadWork = 64 * 1024;

/// Numbers of scratch that a head needs at most, forward or backward, on any instruction set.
template <class T>
std::int64_t scratch_of(const HeadwisePlan<T>& in) {
  const std::int64_t width = padded<T>(in.keys), wide = padded<T>(in.dim);
  if (in.queries == 1) return 3 * width + kPadding<T>;
  const std::int64_t deep = padded<T>(in.channels);
  return (in.dim + in.channels + 3 * in.queries) * width + (2 * in.keys + in.queries) * wide +
         (in.keys + in.queries) * deep + padded<T>(in.queries * in.keys + kPadding<T>);
}

/// Calls work(begin, end, scratch) on ranges of heads, in parallel.
template <class T, class Work>
void each_range(const HeadwiseProblem& in, std::int64_t scratch, const Work& work) {
  const std::int64_t work_of_head = in.q.size(2) * in.k.size(2) * (in.q.size(3) + in.v.size(3));
  const std::int64_t grain = std::max<std::int64_t>(1, kThreadWork / work_of_head);
  at::parallel_for(0, in.q.size(0) * in.q.size(1), grain,
                   [&](std::int64_t begin, std::int64_t end) {
                     const Room<T> room(scratch);
                     work(begin, end, room.get());
                   });
}

template <class T>
T* start_of(const Tensor& x) {
  return x.defined() ? x.data_ptr<T>() : nullptr;
}

}  // namespace

bool heads_are_small(const HeadwiseProblem& in) {
  const std::int64_t queries = in.q.size(2), keys = in.k.size(2);
  const std::int64_t dim = in.q.size(3), channels = in.v.size(3);
  if (in.bias.defined() || in.relative_q.defined()) return false;  // only blocks know them
  if (queries == 1) return true;  // loops of its own, that read everything once
  return queries * keys * in.q.element_size() <= kLogitBytes &&
         std::max(dim, channels) <= kChannels &&
         (queries >= kFewQueries || keys * (dim + channels) <= kKeysOfFew);
}

Tensor room_for_small_weights(const HeadwiseProblem& in) {
  const std::int64_t keys = in.k.size(2);
  const std::int64_t width =
      in.q.scalar_type() == at::kFloat ? padded<float>(keys) : padded<double>(keys);
  return at::empty({in.q.size(0) * in.q.size(1), in.q.size(2), width}, in.q.options());
}

void attend_small_heads(const HeadwiseProblem& in, const Tensor& weights, const Tensor& out) {
  AT_DISPATCH_FLOATING_TYPES(in.q.scalar_type(), "small_attention", [&] {
    const HeadwisePlan<scalar_t> plan(in);
    const Heads<scalar_t> to(out);
    scalar_t* const kept = start_of<scalar_t>(weights);
    each_range<scalar_t>(in, scratch_of(plan),
                         [&](std::int64_t begin, std::int64_t end, scalar_t* room) {
                           attend(plan, kept, to, begin, end, room);
                         });
  });
}

void differentiate_small_heads(const HeadwiseProblem& in, const Tensor& weights, const Tensor& grad,
                               const Tensor& dq, const Tensor& dk, const Tensor& dv) {
  AT_DISPATCH_FLOATING_TYPES(in.q.scalar_type(), "small_attention_backward", [&] {
    const HeadwisePlan<scalar_t> plan(in);
    const HeadwiseGradients<scalar_t> to{Heads<const scalar_t>(grad), Heads<scalar_t>(dq),
                                         Heads<scalar_t>(dk), Heads<scalar_t>(dv)};
    scalar_t* const kept = start_of<scalar_t>(weights);
    each_range<scalar_t>(in, scratch_of(plan),
                         [&](std::int64_t begin, std::int64_t end, scalar_t* room) {
                           differentiate(plan, kept, to, begin, end, room);
                         });
  });
}

}  // namespace attnlab
#endif
