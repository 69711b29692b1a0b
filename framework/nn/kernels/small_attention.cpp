// Softmax attention of small heads on the CPU: see the header.
#include "framework/nn/kernels/small_attention.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <memory>

#include "framework/base/vector_clones.h"
#include "framework/nn/kernels/single_query.h"

namespace attnlab {
namespace {

using small::Gradients;
using small::Heads;
using small::Plan;

// Up to these sizes loops are faster than a library's products: what a head needs stays in a core's
// second-level cache. Few queries pay for bringing many keys to form only where those lie in the
// first level.
constexpr std::int64_t kLogitBytes = 256 * 1024;
constexpr std::int64_t kChannels = 256;
constexpr std::int64_t kFewQueries = 16;
constexpr std::int64_t kKeysOfFew = 16 * 1024;
// Multiply-adds below which a thread is not worth waking.
constexpr std::int64_t kThreadWork = 64 * 1024;

ATTNLAB_VECTOR_CLONES
void attend_range(const Plan<float>& in, const Heads<float>& out, std::int64_t begin,
                  std::int64_t end, float* room) {
  const bool single = small::has_single_query(in, out);
  for (std::int64_t i = begin; i < end; ++i) {
    single ? small::attend_query(in, i, out, {room}) : small::attend_head(in, i, out, {room});
  }
}

ATTNLAB_VECTOR_CLONES
void attend_range(const Plan<double>& in, const Heads<double>& out, std::int64_t begin,
                  std::int64_t end, double* room) {
  const bool single = small::has_single_query(in, out);
  for (std::int64_t i = begin; i < end; ++i) {
    single ? small::attend_query(in, i, out, {room}) : small::attend_head(in, i, out, {room});
  }
}

ATTNLAB_VECTOR_CLONES
void differentiate_range(const Plan<float>& in, const Gradients<float>& to, std::int64_t begin,
                         std::int64_t end, float* room) {
  const bool single = small::has_single_query(in, to);
  for (std::int64_t i = begin; i < end; ++i) {
    single ? small::differentiate_query(in, i, to, {room})
           : small::differentiate_head(in, i, to, {room});
  }
}

ATTNLAB_VECTOR_CLONES
void differentiate_range(const Plan<double>& in, const Gradients<double>& to, std::int64_t begin,
                         std::int64_t end, double* room) {
  const bool single = small::has_single_query(in, to);
  for (std::int64_t i = begin; i < end; ++i) {
    single ? small::differentiate_query(in, i, to, {room})
           : small::differentiate_head(in, i, to, {room});
  }
}

/// Calls work(begin, end, scratch) on ranges of heads, in parallel.
template <class T, class Work>
void each_range(const HeadwiseProblem& in, std::int64_t scratch, const Work& work) {
  const std::int64_t work_of_head = in.q.size(2) * in.k.size(2) * (in.q.size(3) + in.v.size(3));
  const std::int64_t grain = std::max<std::int64_t>(1, kThreadWork / work_of_head);
  at::parallel_for(0, in.q.size(0) * in.q.size(1), grain,
                   [&](std::int64_t begin, std::int64_t end) {
                     const auto room = std::make_unique_for_overwrite<T[]>(scratch);
                     work(begin, end, room.get());
                   });
}

}  // namespace

bool heads_are_small(const HeadwiseProblem& in) {
  const std::int64_t queries = in.q.size(2), keys = in.k.size(2);
  const std::int64_t dim = in.q.size(3), channels = in.v.size(3);
  return queries * keys * in.q.element_size() <= kLogitBytes &&
         std::max(dim, channels) <= kChannels &&
         (queries >= kFewQueries || keys * (dim + channels) <= kKeysOfFew);
}

Tensor room_for_small_weights(const HeadwiseProblem& in) {
  const std::int64_t lanes = 64 / in.q.element_size();
  const std::int64_t width = (in.k.size(2) + lanes - 1) / lanes * lanes;
  return at::empty({in.q.size(0) * in.q.size(1), in.q.size(2), width}, in.q.options());
}

void attend_small_heads(const HeadwiseProblem& in, const Tensor& weights, const Tensor& out) {
  AT_DISPATCH_FLOATING_TYPES(in.q.scalar_type(), "small_attention", [&] {
    const Plan<scalar_t> plan(in, weights);
    const Heads<scalar_t> to(out);
    each_range<scalar_t>(in, plan.scratch(),
                         [&](std::int64_t begin, std::int64_t end, scalar_t* room) {
                           attend_range(plan, to, begin, end, room);
                         });
  });
}

void differentiate_small_heads(const HeadwiseProblem& in, const Tensor& weights, const Tensor& grad,
                               const Tensor& dq, const Tensor& dk, const Tensor& dv) {
  AT_DISPATCH_FLOATING_TYPES(in.q.scalar_type(), "small_attention_backward", [&] {
    const Plan<scalar_t> plan(in, weights);
    const Gradients<scalar_t> to{Heads<const scalar_t>(grad), Heads<scalar_t>(dq),
                                 Heads<scalar_t>(dk), Heads<scalar_t>(dv)};
    each_range<scalar_t>(in, plan.scratch(),
                         [&](std::int64_t begin, std::int64_t end, scalar_t* room) {
                           differentiate_range(plan, to, begin, end, room);
                         });
  });
}

}  // namespace attnlab
