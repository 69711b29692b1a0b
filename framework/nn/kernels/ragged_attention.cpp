// Softmax attention over sequences that lie end to end: see the header.
#include "framework/nn/kernels/ragged_attention.h"

#include <torch/csrc/autograd/custom_function.h>

#include "framework/nn/kernels/block_attention.h"
#include "framework/nn/kernels/cpu_attention.h"
#include "framework/nn/kernels/packed_heads.h"
#include "framework/nn/kernels/small_attention.h"
#include "framework/tensor/flop_counter.h"

namespace attnlab {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A ragged batch, its sequences told apart by how they are computed.
struct Ragged {
  HeadwiseProblem whole;
  std::vector<Sequence> all, small, large;
  std::int64_t weights = 0;    ///< that small ones keep
  bool holds_nothing = false;  ///< whether there are queries without keys, or keys without queries
};

Ragged ragged_of(const Tensor& q, const Tensor& k, const Tensor& v, const RaggedQuestion& question,
                 const std::vector<std::int64_t>& drops, const Tensor& inverse, bool rounds) {
  Ragged ragged;
  ragged.whole.q = rows_dense(q), ragged.whole.k = rows_dense(k), ragged.whole.v = rows_dense(v);
  ragged.whole.rules = question.rules, ragged.whole.scale = question.scale;
  ragged.whole.unit = question.unit_keys, ragged.whole.inverse = inverse;
  ragged.whole.drops.p = question.dropout, ragged.whole.rounds = rounds;
  const auto* query = question.query_offsets.data_ptr<std::int64_t>();
  const auto* key = question.key_offsets.data_ptr<std::int64_t>();
  for (std::int64_t t = 0; t + 1 < question.query_offsets.size(0); ++t) {
    Sequence one{query[t],       query[t + 1] - query[t],
                 key[t],         key[t + 1] - key[t],
                 ragged.weights, static_cast<std::uint64_t>(drops[static_cast<std::size_t>(t)])};
    ragged.all.push_back(one);
    if (one.rows == 0 || one.columns == 0) {
      ragged.holds_nothing |= one.rows != one.columns;
    } else if (heads_are_small(ragged.whole, one)) {
      ragged.weights += small_weights_of(ragged.whole, one);
      ragged.small.push_back(one);
    } else {
      ragged.large.push_back(one);
    }
  }
  return ragged;
}

Tensor queries_of(const Tensor& x, const Sequence& one) { return x.narrow(2, one.query, one.rows); }
Tensor keys_of(const Tensor& x, const Sequence& one) { return x.narrow(2, one.key, one.columns); }

/// One sequence as if it stood alone.
HeadwiseProblem alone(const HeadwiseProblem& whole, const Sequence& one) {
  HeadwiseProblem problem = whole;
  problem.q = queries_of(whole.q, one);
  problem.k = keys_of(whole.k, one), problem.v = keys_of(whole.v, one);
  problem.drops.key = one.drops;
  if (whole.inverse.defined()) {
    const std::int64_t heads = whole.q.size(1);
    problem.inverse = whole.inverse.flatten()
                          .narrow(0, heads * one.key, heads * one.columns)
                          .view({1, heads, one.columns, 1});
  }
  return problem;
}

/// What is computed forward, and what the backward pass reads.
struct AttendedSets {
  Tensor out, weights;
  std::vector<Tensor> rows;  ///< of large sequences, what their rows gathered
};

AttendedSets attend(const Ragged& in, bool keep) {
  std::int64_t pairs = 0;
  for (const auto* some : {&in.small, &in.large}) {
    for (const Sequence& one : *some) pairs += one.rows * one.columns;
  }
  const HeadwiseProblem& whole = in.whole;
  const OwnKernelFlops flops("attnlab::ragged attention",
                             whole.q.size(1) * pairs * (whole.q.size(3) + whole.v.size(3)));
  AttendedSets to{empty_by_token(whole.q, whole.q.size(2), whole.v.size(3)), {}, {}};
  if (in.holds_nothing) to.out.zero_();
  if (keep) to.weights = at::empty({in.weights}, whole.q.options());
  if (!in.small.empty()) attend_small_sequences(whole, in.small, to.weights, to.out);
  for (const Sequence& one : in.large) {
    to.rows.push_back(attend_blocks(alone(whole, one), queries_of(to.out, one)));
  }
  return to;
}

HeadGradients differentiate(const Ragged& in, const AttendedSets& attended, const Tensor& grad) {
  const HeadwiseProblem& whole = in.whole;
  const auto like = [](const Tensor& x) { return empty_by_token(x, x.size(2), x.size(3)); };
  std::vector<Tensor> qkv = room_for_packed({whole.q, whole.k, whole.v});
  if (qkv.empty()) qkv = {like(whole.q), like(whole.k), like(whole.v)};
  if (in.holds_nothing) {
    for (const Tensor& x : qkv) x.zero_();
  }
  HeadGradients to{qkv[0], qkv[1], qkv[2]};
  if (!in.small.empty()) {
    differentiate_small_sequences(whole, in.small, attended.weights, grad, to);
  }
  for (std::size_t i = 0; i < in.large.size(); ++i) {
    const Sequence& one = in.large[i];
    differentiate_blocks(alone(whole, one), attended.rows[i], queries_of(attended.out, one),
                         queries_of(grad, one),
                         {queries_of(to.q, one), keys_of(to.k, one), keys_of(to.v, one)});
  }
  return to;
}

/// The gradients as operations that autograd can follow.
variable_list compose(const Ragged& in, const variable_list& saved, const Tensor& grad) {
  std::vector<Tensor> q, k, v;
  for (const Sequence& one : in.all) {
    const Tensor own_q = queries_of(saved[0], one), own_k = keys_of(saved[1], one),
                 own_v = keys_of(saved[2], one);
    if (one.rows == 0 || one.columns == 0) {
      q.push_back(at::zeros_like(own_q));
      k.push_back(at::zeros_like(own_k));
      v.push_back(at::zeros_like(own_v));
      continue;
    }
    const ComposedGradients own = composed_headwise_gradients(alone(in.whole, one), own_q, own_k,
                                                              own_v, queries_of(grad, one));
    q.push_back(own.q);
    k.push_back(own.k);
    v.push_back(own.v);
  }
  return {at::cat(q, 2), at::cat(k, 2), at::cat(v, 2), Tensor(), Tensor()};
}

struct RaggedSoftmax : public torch::autograd::Function<RaggedSoftmax> {
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                        const RaggedQuestion& question, const std::vector<std::int64_t>& drops) {
    const Tensor inverse = room_for_inverse(k, question.unit_keys);
    const bool rounds = rounds_heads(q);
    const Ragged in = ragged_of(q, k, v, question, drops, inverse, rounds);
    const AttendedSets attended = attend(in, true);
    variable_list saved = {q, k, v, question.query_offsets, question.key_offsets, inverse,
                           attended.weights,
                           // Small heads keep their weights, and do not need the output again.
                           in.large.empty() ? Tensor() : attended.out};
    saved.insert(saved.end(), attended.rows.begin(), attended.rows.end());
    context->save_for_backward(saved);
    context->saved_data["causal"] = question.rules.causal;
    context->saved_data["window"] = question.rules.window;
    context->saved_data["scale"] = question.scale;
    context->saved_data["eps"] = question.unit_keys.value_or(0);
    context->saved_data["p"] = question.dropout;
    context->saved_data["drops"] = drops;
    context->saved_data["rounds"] = rounds;
    return attended.out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const double eps = context->saved_data["eps"].toDouble();
    const RaggedQuestion question{
        saved[3],
        saved[4],
        {context->saved_data["causal"].toBool(), context->saved_data["window"].toInt()},
        context->saved_data["scale"].toDouble(),
        saved[5].defined() ? UnitKeys(eps) : UnitKeys(),
        context->saved_data["p"].toDouble()};
    const Ragged in = ragged_of(saved[0], saved[1], saved[2], question,
                                context->saved_data["drops"].toIntVector(), saved[5],
                                context->saved_data["rounds"].toBool());
    if (at::GradMode::is_enabled()) return compose(in, saved, gradients[0]);
    const AttendedSets attended{saved[7].defined() ? saved[7].detach() : Tensor(),
                                saved[6],
                                {saved.begin() + 8, saved.end()}};
    const HeadGradients all = differentiate(in, attended, rows_dense(gradients[0]));
    return {all.q, all.k, all.v, Tensor(), Tensor()};
  }
};

}  // namespace

Tensor cpu_ragged_attention(const Tensor& queries, const Tensor& keys, const Tensor& values,
                            const RaggedQuestion& question) {
  std::vector<std::int64_t> drops;
  const auto* query = question.query_offsets.data_ptr<std::int64_t>();
  const auto* key = question.key_offsets.data_ptr<std::int64_t>();
  for (std::int64_t t = 0; t + 1 < question.query_offsets.size(0); ++t) {
    const bool empty = query[t] == query[t + 1] || key[t] == key[t + 1];
    const DropoutMask mask = draw_dropout(empty ? 0 : question.dropout);
    drops.push_back(static_cast<std::int64_t>(mask.key));
  }
  const bool gradients =
      at::GradMode::is_enabled() &&
      (queries.requires_grad() || keys.requires_grad() || values.requires_grad());
  if (gradients) return RaggedSoftmax::apply(queries, keys, values, question, drops);
  const Tensor inverse = room_for_inverse(keys, question.unit_keys);
  return attend(ragged_of(queries, keys, values, question, drops, inverse, rounds_heads(queries)),
                false)
      .out;
}

}  // namespace attnlab
