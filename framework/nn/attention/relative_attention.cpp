// Attention with relative positions, a head at a time: see the header.
#include "framework/nn/attention/relative_attention.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "framework/nn/kernels/small_product.h"
#include "framework/nn/modules/relative_positions.h"
#include "framework/tensor/flop_counter.h"

namespace attnlab {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Of a head, as rows of plain numbers.
struct Rows {
  float* first;
  std::int64_t step;
};

/// The heads of a [B, H, L, C] tensor whose rows are dense.
Rows rows_of(const Tensor& x, std::int64_t head) {
  const std::int64_t b = head / x.size(1), h = head % x.size(1);
  return {x.data_ptr<float>() + b * x.stride(0) + h * x.stride(1), x.stride(2)};
}

Tensor with_dense_rows(const Tensor& x) { return x.stride(-1) == 1 ? x : x.contiguous(); }

/// [B, H, L, C], lying as [B, L, H, C], so that merging heads moves nothing.
Tensor empty_by_token(const Tensor& like, std::int64_t length, std::int64_t channels) {
  return at::empty({like.size(0), length, like.size(1), channels}, like.options()).transpose(1, 2);
}

void copy_rows(Rows from, Rows to, std::int64_t count, std::int64_t width) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::copy_n(from.first + i * from.step, width, to.first + i * to.step);
  }
}

void copy_transposed(Rows from, float* to, std::int64_t count, std::int64_t width, float factor) {
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t c = 0; c < width; ++c)
      to[c * count + i] = factor * from.first[i * from.step + c];
  }
}

struct Problem {
  RelativeHeads in;
  float scale;
  std::int64_t window;
  std::int64_t heads, queries, keys, dim, channels;

  Problem(const RelativeHeads& given, double scale, std::int64_t window)
      : in{with_dense_rows(given.queries.detach()), with_dense_rows(given.places.detach()),
           with_dense_rows(given.keys.detach()), with_dense_rows(given.distances.detach()),
           with_dense_rows(given.values.detach())},
        scale(static_cast<float>(scale)),
        window(window),
        heads(in.queries.size(0) * in.queries.size(1)),
        queries(in.queries.size(2)),
        keys(in.keys.size(2)),
        dim(in.queries.size(3)),
        channels(in.values.size(3)) {}

  std::int64_t logits() const { return queries * keys; }
  /// Of P, uninitialised: [B * H, Lq, Lk].
  Tensor room_for_weights() const {
    return at::empty({heads, queries, keys}, in.queries.options());
  }
  std::int64_t widest() const { return std::max(dim, channels); }
  /// Distances of the head's own.
  Rows distances(std::int64_t head) const {
    const Tensor& r = in.distances;
    return {r.data_ptr<float>() + head % r.size(0) * r.stride(0), r.stride(1)};
  }
  /// Keys that query i sees: [begin, end).
  std::int64_t end(std::int64_t i) const { return i + keys - queries + 1; }
  std::int64_t begin(std::int64_t i) const {
    return window > 0 ? std::max<std::int64_t>(0, end(i) - window) : 0;
  }
  /// Where row i of what stands by distance begins, as keys count.
  std::int64_t shift(std::int64_t i) const { return queries - 1 - i; }

  /// Calls work(head, scratch of `floats`) for all heads, in parallel.
  template <class Work>
  void each_head(std::int64_t floats, const Work& work) const {
    constexpr std::int64_t kThreadWork = 64 * 1024;  // multiply-adds worth a thread
    const std::int64_t cost = logits() * (2 * dim + channels);
    const std::int64_t grain =
        std::max<std::int64_t>(1, kThreadWork / std::max<std::int64_t>(1, cost));
    at::parallel_for(0, heads, grain, [&](std::int64_t first, std::int64_t last) {
      const at::AutoDispatchBelowADInplaceOrView below;  // worker threads would record a graph
      const auto room = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(floats));
      for (std::int64_t head = first; head < last; ++head) work(head, room.get());
    });
  }
};

/// Logits of a head, [Lq, Lk]; hidden pairs hold the lowest number.
void fill_logits(const Problem& p, std::int64_t head, float* logits, float* room) {
  float *const turned = room, *const by_distance = room + p.dim * p.keys;
  const auto multiply = [&](Rows left, Rows right, float* to) {
    copy_transposed(right, turned, p.keys, p.dim, p.scale);
    small_product({.rows = p.queries,
                   .depth = p.dim,
                   .columns = p.keys,
                   .a = {left.first, left.step},
                   .b = turned,
                   .c = to});
  };
  multiply(rows_of(p.in.queries, head), rows_of(p.in.keys, head), logits);
  multiply(rows_of(p.in.places, head), p.distances(head), by_distance);
  for (std::int64_t i = 0; i < p.queries; ++i) {
    float* const row = logits + i * p.keys;
    const float* const places = by_distance + i * p.keys + p.shift(i);
    const std::int64_t begin = p.begin(i), end = p.end(i);
    std::fill_n(row, begin, std::numeric_limits<float>::lowest());
    for (std::int64_t j = begin; j < end; ++j) row[j] += places[j];
    std::fill_n(row + end, p.keys - end, std::numeric_limits<float>::lowest());
  }
}

/// @param weights  [B * H, Lq, Lk], filled with P
Tensor attend(const Problem& p, const Tensor& weights) {
  const OwnKernelFlops flops(p.heads * p.logits() * (2 * p.dim + p.channels));
  Tensor out = empty_by_token(p.in.queries, p.queries, p.channels);
  const std::int64_t room = p.dim * p.keys + p.logits() + (p.keys + p.queries) * p.channels;
  p.each_head(room, [&](std::int64_t head, float* scratch) {
    Tensor rows = weights.select(0, head);
    fill_logits(p, head, rows.data_ptr<float>(), scratch);
    at::_softmax_out(rows, rows, -1, false);
    float *const values = scratch, *const y = scratch + p.keys * p.channels;
    copy_rows(rows_of(p.in.values, head), {values, p.channels}, p.keys, p.channels);
    small_product({.rows = p.queries,
                   .depth = p.keys,
                   .columns = p.channels,
                   .a = {rows.data_ptr<float>(), p.keys},
                   .b = values,
                   .c = y});
    copy_rows({y, p.channels}, rows_of(out, head), p.queries, p.channels);
  });
  return out;
}

/// dP = dY V^T, dV = P^T dY, dL = P (dP - <dP, P>), dq = s dL K, dk = s dL^T q, and with dL by
/// distance instead of by key dp = s dL' R, dr = s dL'^T p, summed over examples.
RelativeHeads differentiate(const Problem& p, const Tensor& weights, const Tensor& grad) {
  const OwnKernelFlops flops(2 * p.heads * p.logits() * (2 * p.dim + p.channels));
  const std::int64_t batch = p.in.queries.size(0), per_example = p.in.queries.size(1);
  const Tensor dr = at::empty({batch, per_example, p.keys, p.dim}, p.in.queries.options());
  RelativeHeads out{empty_by_token(p.in.queries, p.queries, p.dim),
                    empty_by_token(p.in.queries, p.queries, p.dim),
                    empty_by_token(p.in.queries, p.keys, p.dim),
                    {},
                    empty_by_token(p.in.queries, p.keys, p.channels)};
  const std::int64_t wide = std::max(p.queries, p.keys) * p.widest();
  p.each_head(2 * p.logits() + 3 * wide, [&](std::int64_t head, float* scratch) {
    float *const dl = scratch, *const by_distance = dl + p.logits();
    float *const a = by_distance + p.logits(), *const b = a + wide, *const c = b + wide;
    Tensor rows = weights.select(0, head);
    const float* const weight = rows.data_ptr<float>();
    copy_rows(rows_of(grad, head), {a, p.channels}, p.queries, p.channels);
    copy_transposed(rows_of(p.in.values, head), b, p.keys, p.channels, 1);
    small_product({p.queries, p.channels, p.keys, {a, p.channels}, b, nullptr, 1, 0, dl});
    small_product({p.keys, p.queries, p.channels, {weight, 1, p.keys}, a, nullptr, 1, 0, c});
    copy_rows({c, p.channels}, rows_of(out.values, head), p.keys, p.channels);

    Tensor gradients = at::from_blob(dl, {p.queries, p.keys}, rows.options());
    at::_softmax_backward_data_out(gradients, gradients, rows, -1, at::kFloat);
    std::fill_n(by_distance, p.logits(), 0.0F);
    for (std::int64_t i = 0; i < p.queries; ++i) {
      const std::int64_t begin = p.begin(i), end = p.end(i);
      float* const row = dl + i * p.keys;
      for (std::int64_t j = begin; j < end; ++j) row[j] *= p.scale;
      std::copy_n(row + begin, end - begin, by_distance + i * p.keys + p.shift(i) + begin);
    }
    /// Gradients of both sides of a product whose own is `of`.
    const auto sides = [&](const float* of, Rows left, Rows right, Rows dleft, Rows dright) {
      copy_rows(right, {a, p.dim}, p.keys, p.dim);
      small_product({p.queries, p.keys, p.dim, {of, p.keys}, a, nullptr, 1, 0, c});
      copy_rows({c, p.dim}, dleft, p.queries, p.dim);
      copy_rows(left, {a, p.dim}, p.queries, p.dim);
      small_product({p.keys, p.queries, p.dim, {of, 1, p.keys}, a, nullptr, 1, 0, c});
      copy_rows({c, p.dim}, dright, p.keys, p.dim);
    };
    sides(dl, rows_of(p.in.queries, head), rows_of(p.in.keys, head), rows_of(out.queries, head),
          rows_of(out.keys, head));
    sides(by_distance, rows_of(p.in.places, head), p.distances(head), rows_of(out.places, head),
          rows_of(dr, head));
  });
  const std::int64_t unread = p.in.distances.size(1) - p.keys;
  out.distances = at::constant_pad_nd(dr.sum(0), {0, 0, 0, unread});
  return out;
}

/// The same as operations that autograd can follow.
Tensor compose(const RelativeHeads& in, double scale, std::int64_t window) {
  const std::int64_t queries = in.queries.size(2), keys = in.keys.size(2);
  const Tensor behind = at::arange(keys - queries, keys).unsqueeze(1) - at::arange(keys);
  Tensor hidden = behind.lt(0);
  if (window > 0) hidden = hidden.logical_or(behind.ge(window));
  const Tensor by_distance = at::matmul(in.places, in.distances.transpose(-2, -1));
  const Tensor logits =
      (at::matmul(in.queries, in.keys.transpose(-2, -1)) + by_key(by_distance, keys)) * scale;
  return at::matmul(logits.masked_fill(hidden, std::numeric_limits<float>::lowest()).softmax(-1),
                    in.values);
}

RelativeHeads heads_of(const variable_list& all) {
  return {all[0], all[1], all[2], all[3], all[4]};
}

/// Gradients with a graph of their own; undefined for what takes none.
variable_list compose_gradients(const variable_list& inputs, double scale, std::int64_t window,
                                const Tensor& grad) {
  variable_list wanted, result(inputs.size());
  for (const Tensor& input : inputs) {
    if (input.requires_grad()) wanted.push_back(input);
  }
  const variable_list gradients = torch::autograd::grad(
      {compose(heads_of(inputs), scale, window)}, wanted, {grad}, true, /*create_graph=*/true);
  for (std::size_t i = 0, next = 0; i < inputs.size(); ++i) {
    if (inputs[i].requires_grad()) result[i] = gradients[next++];
  }
  return result;
}

struct RelativeSoftmax : public torch::autograd::Function<RelativeSoftmax> {
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& p, const Tensor& k,
                        const Tensor& r, const Tensor& v, double scale, std::int64_t window) {
    const Problem problem({q, p, k, r, v}, scale, window);
    const Tensor weights = problem.room_for_weights();
    Tensor out = attend(problem, weights);
    context->save_for_backward({q, p, k, r, v, weights});
    context->saved_data["scale"] = scale;
    context->saved_data["window"] = window;
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    variable_list inputs = context->get_saved_variables();
    const Tensor weights = inputs.back();
    inputs.pop_back();
    const double scale = context->saved_data["scale"].toDouble();
    const std::int64_t window = context->saved_data["window"].toInt();
    variable_list all;
    if (at::GradMode::is_enabled()) {  // the caller asked for a graph of this backward pass
      all = compose_gradients(inputs, scale, window, gradients[0]);
    } else {
      const RelativeHeads found = differentiate(Problem(heads_of(inputs), scale, window), weights,
                                                with_dense_rows(gradients[0]));
      all = {found.queries, found.places, found.keys, found.distances, found.values};
    }
    all.resize(7);
    return all;
  }
};

}  // namespace

bool relative_attention_takes(const Tensor& queries, const Tensor& keys, const Tensor& values) {
  return queries.device().is_cpu() && queries.scalar_type() == at::kFloat && queries.numel() > 0 &&
         values.numel() > 0 && keys.size(2) >= queries.size(2);
}

Tensor relative_attention(const RelativeHeads& heads, double scale, std::int64_t window) {
  const auto& [q, p, k, r, v] = heads;
  const bool gradients =
      at::GradMode::is_enabled() && (q.requires_grad() || p.requires_grad() || k.requires_grad() ||
                                     r.requires_grad() || v.requires_grad());
  if (gradients) return RelativeSoftmax::apply(q, p, k, r, v, scale, window);
  const Problem problem(heads, scale, window);
  return attend(problem, problem.room_for_weights());
}

}  // namespace attnlab
