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

template <class P, class T>
void attend_range(const HeadwisePlan<T>& in, T* kept, const Heads<T>& out, std::int64_t begin,
                  std::int64_t end, T* room) {
  const bool single = in.queries == 1;
  for (std::int64_t i = begin; i < end; ++i) {
    single ? attend_query(in, i, kept, out, {room}) : attend_head<P, T>(in, i, kept, out, {room});
  }
}

template <class P, class T>
void differentiate_range(const HeadwisePlan<T>& in, T* weights, const HeadwiseGradients<T>& to,
                         std::int64_t begin, std::int64_t end, T* room) {
  const bool single = in.queries == 1;
  for (std::int64_t i = begin; i < end; ++i) {
    single ? differentiate_query(in, i, weights, to, {room})
           : differentiate_head<P, T>(in, i, weights, to, {room});
  }
}

// Tables of kernels hold plain functions.
void attend_floats(const HeadwisePlan<float>& in, float* kept, const Heads<float>& out,
                   std::int64_t begin, std::int64_t end, float* room) {
  in.rounds ? attend_range<RoundedPanels>(in, kept, out, begin, end, room)
            : attend_range<Panels<float>>(in, kept, out, begin, end, room);
}
void attend_doubles(const HeadwisePlan<double>& in, double* kept, const Heads<double>& out,
                    std::int64_t begin, std::int64_t end, double* room) {
  attend_range<Panels<double>>(in, kept, out, begin, end, room);
}
void attend_part_of_floats(const HeadwisePlan<float>& in, const PartOfQuery<float>& at,
                           const Heads<float>& out) {
  attend_part(in, at, out);
}
void attend_part_of_doubles(const HeadwisePlan<double>& in, const PartOfQuery<double>& at,
                            const Heads<double>& out) {
  attend_part(in, at, out);
}
void differentiate_floats(const HeadwisePlan<float>& in, float* weights,
                          const HeadwiseGradients<float>& to, std::int64_t begin, std::int64_t end,
                          float* room) {
  in.rounds ? differentiate_range<RoundedPanels>(in, weights, to, begin, end, room)
            : differentiate_range<Panels<float>>(in, weights, to, begin, end, room);
}
void differentiate_doubles(const HeadwisePlan<double>& in, double* weights,
                           const HeadwiseGradients<double>& to, std::int64_t begin,
                           std::int64_t end, double* room) {
  differentiate_range<Panels<double>>(in, weights, to, begin, end, room);
}

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnlab {
namespace {

HWY_EXPORT(attend_floats);
HWY_EXPORT(attend_doubles);
HWY_EXPORT(attend_part_of_floats);
HWY_EXPORT(attend_part_of_doubles);
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
void attend(const HeadwisePlan<float>& in, const PartOfQuery<float>& at, const Heads<float>& out) {
  ATTNLAB_DISPATCH(attend_part_of_floats)(in, at, out);
}
void attend(const HeadwisePlan<double>& in, const PartOfQuery<double>& at,
            const Heads<double>& out) {
  ATTNLAB_DISPATCH(attend_part_of_doubles)(in, at, out);
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
  if (in.queries == 1) return 3 * width + kPadding<T> + padded<T>(in.channels);
  const std::int64_t deep = padded<T>(in.channels);
  const std::int64_t relative =
      in.relative() ? relative_room<T>(in.dim, in.distances(), in.queries, in.keys) +
                          (in.queries + 2 * in.distances()) * wide
                    : 0;
  return (in.dim + in.channels + 3 * in.queries) * width + (2 * in.keys + in.queries) * wide +
         (in.keys + in.queries) * deep + padded<T>(in.queries * in.keys + kPadding<T>) + relative;
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

template <class T>
Heads<T> from_row(Heads<T> whole, std::int64_t row) {
  whole.data += row * whole.row;
  return whole;
}

/// The plan of one sequence.
template <class T>
HeadwisePlan<T> plan_of(const HeadwisePlan<T>& whole, const Sequence& sequence) {
  HeadwisePlan<T> plan = whole;
  plan.queries = sequence.rows, plan.keys = sequence.columns;
  plan.q = from_row(whole.q, sequence.query);
  plan.k = from_row(whole.k, sequence.key);
  plan.v = from_row(whole.v, sequence.key);
  plan.drops.key = sequence.drops;
  if (whole.inverse != nullptr) plan.inverse += whole.q.heads * sequence.key;
  return plan;
}

/// Calls work(plan, sequence, first head, last head, scratch) for the heads of all sequences, in
/// parallel: shares of equally many pairs, so that a long sequence keeps no other thread waiting.
template <class T, class Work>
void each_sequence(const HeadwisePlan<T>& whole, std::span<const Sequence> sequences,
                   const Work& work) {
  std::vector<HeadwisePlan<T>> plans;
  std::vector<std::int64_t> pairs = {0};  // of all heads before
  std::int64_t scratch = 0;
  for (const Sequence& sequence : sequences) {
    plans.push_back(plan_of(whole, sequence));
    scratch = std::max(scratch, scratch_of(plans.back()));
    for (std::int64_t head = 0; head < whole.q.heads; ++head) {
      pairs.push_back(pairs.back() + sequence.rows * sequence.columns);
    }
  }
  const std::int64_t grain = std::max<std::int64_t>(1, kThreadWork / (whole.dim + whole.channels));
  const auto item_of = [&](std::int64_t pair) {
    return std::lower_bound(pairs.begin(), pairs.end(), pair) - pairs.begin();
  };
  at::parallel_for(0, pairs.back(), grain, [&](std::int64_t begin, std::int64_t end) {
    const Room<T> room(scratch);
    const std::int64_t last = item_of(end);
    for (std::int64_t item = item_of(begin); item < last;) {
      const std::int64_t t = item / whole.q.heads, head = item % whole.q.heads;
      const std::int64_t heads = std::min(whole.q.heads - head, last - item);
      work(plans[std::size_t(t)], sequences[std::size_t(t)], head, head + heads, room.get());
      item += heads;
    }
  });
}

bool sizes_are_small(const HeadwiseProblem& like, std::int64_t queries, std::int64_t keys) {
  const std::int64_t dim = like.q.size(3), channels = like.v.size(3);
  if (queries == 1) return true;  // loops of its own, that read everything once
  return queries * keys * like.q.element_size() <= kLogitBytes &&
         std::max(dim, channels) <= kChannels &&
         (queries >= kFewQueries || keys * (dim + channels) <= kKeysOfFew);
}

std::int64_t padded_keys(const HeadwiseProblem& in, std::int64_t keys) {
  return in.q.scalar_type() == at::kFloat ? padded<float>(keys) : padded<double>(keys);
}

}  // namespace

bool heads_are_small(const HeadwiseProblem& in) {
  const std::int64_t queries = in.q.size(2);
  const bool for_blocks =
      in.bias.defined() || in.has_terms() || (in.relative_q.defined() && queries == 1);
  return !for_blocks && sizes_are_small(in, queries, in.k.size(2));
}

bool heads_are_small(const HeadwiseProblem& like, const Sequence& sequence) {
  return sizes_are_small(like, sequence.rows, sequence.columns);
}

std::int64_t small_weights_of(const HeadwiseProblem& whole, const Sequence& sequence) {
  return whole.q.size(1) * sequence.rows * padded_keys(whole, sequence.columns);
}

Tensor room_for_small_weights(const HeadwiseProblem& in) {
  return at::empty({in.q.size(0) * in.q.size(1), in.q.size(2), padded_keys(in, in.k.size(2))},
                   in.q.options());
}

namespace {

/// Of one query and many keys, without dropout: threads share the keys, too.
template <class T>
void attend_long_query(const HeadwisePlan<T>& in, std::int64_t heads, const Heads<T>& to) {
  const std::int64_t parts = (in.keys + kKeysOfPart - 1) / kKeysOfPart;
  const std::int64_t row = padded<T>(in.keys), sums = parts * padded<T>(in.channels);
  const Room<T> room(heads * (row + sums));
  const auto each = [&](QueryStep step, std::int64_t count) {
    at::parallel_for(0, heads * count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t head = i / count;
        attend(in,
               PartOfQuery<T>{step, head, i % count, room.get() + head * row,
                              room.get() + heads * row + head * sums},
               to);
      }
    });
  };
  each(QueryStep::logits, parts);
  each(QueryStep::weights, 1);
  each(QueryStep::values, parts);
  each(QueryStep::result, 1);
}

}  // namespace

void attend_small_heads(const HeadwiseProblem& in, const Tensor& weights, const Tensor& out) {
  AT_DISPATCH_FLOATING_TYPES(in.q.scalar_type(), "small_attention", [&] {
    const HeadwisePlan<scalar_t> plan(in);
    const Heads<scalar_t> to(out);
    if (plan.queries == 1 && plan.keys > kKeysOfPart && !weights.defined() && plan.drops.p == 0) {
      return attend_long_query(plan, in.q.size(0) * in.q.size(1), to);
    }
    scalar_t* const kept = start_of<scalar_t>(weights);
    each_range<scalar_t>(in, scratch_of(plan),
                         [&](std::int64_t begin, std::int64_t end, scalar_t* room) {
                           attend(plan, kept, to, begin, end, room);
                         });
  });
}

void differentiate_small_heads(const HeadwiseProblem& in, const Tensor& weights, const Tensor& grad,
                               const HeadGradients& given) {
  AT_DISPATCH_FLOATING_TYPES(in.q.scalar_type(), "small_attention_backward", [&] {
    const HeadwisePlan<scalar_t> plan(in);
    using To = Heads<scalar_t>;
    const HeadwiseGradients<scalar_t> to{
        Heads<const scalar_t>(grad), To(given.q),         To(given.k), To(given.v), {},
        To(given.relative_q),        To(given.relative_k)};
    scalar_t* const kept = start_of<scalar_t>(weights);
    each_range<scalar_t>(in, scratch_of(plan),
                         [&](std::int64_t begin, std::int64_t end, scalar_t* room) {
                           differentiate(plan, kept, to, begin, end, room);
                         });
  });
}

void attend_small_sequences(const HeadwiseProblem& whole, std::span<const Sequence> sequences,
                            const Tensor& weights, const Tensor& out) {
  AT_DISPATCH_FLOATING_TYPES(whole.q.scalar_type(), "small_sequences", [&] {
    const Heads<scalar_t> to(out);
    scalar_t* const kept = start_of<scalar_t>(weights);
    each_sequence(HeadwisePlan<scalar_t>(whole), sequences,
                  [&](const HeadwisePlan<scalar_t>& plan, const Sequence& one, std::int64_t begin,
                      std::int64_t end, scalar_t* room) {
                    attend(plan, kept == nullptr ? nullptr : kept + one.weights,
                           from_row(to, one.query), begin, end, room);
                  });
  });
}

void differentiate_small_sequences(const HeadwiseProblem& whole,
                                   std::span<const Sequence> sequences, const Tensor& weights,
                                   const Tensor& grad, const HeadGradients& given) {
  AT_DISPATCH_FLOATING_TYPES(whole.q.scalar_type(), "small_sequences_backward", [&] {
    using To = Heads<scalar_t>;
    const Heads<const scalar_t> of(grad);
    const To q(given.q), k(given.k), v(given.v);
    scalar_t* const kept = start_of<scalar_t>(weights);
    each_sequence(HeadwisePlan<scalar_t>(whole), sequences,
                  [&](const HeadwisePlan<scalar_t>& plan, const Sequence& one, std::int64_t begin,
                      std::int64_t end, scalar_t* room) {
                    const HeadwiseGradients<scalar_t> to{
                        from_row(of, one.query), from_row(q, one.query), from_row(k, one.key),
                        from_row(v, one.key)};
                    differentiate(plan, kept + one.weights, to, begin, end, room);
                  });
  });
}

}  // namespace attnlab
#endif
