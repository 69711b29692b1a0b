// Softmax attention on the CPU, a head at a time: see the header.
#include "framework/nn/kernels/cpu_attention.h"

#include <ATen/Dispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <limits>

#include "framework/nn/kernels/block_attention.h"
#include "framework/nn/kernels/small_attention.h"
#include "framework/tensor/flop_counter.h"

namespace attnlab {
namespace {

// The logit of a hidden pair: below all others, yet finite, so that a row of them has a softmax.
constexpr double kHidden = std::numeric_limits<float>::lowest();

/// Kernels read rows at any distance, but the numbers of a row are to be neighbours.
Tensor rows_dense(const Tensor& x) {
  const bool dense = x.stride(3) == 1 && x.stride(2) >= x.size(3);
  return (dense ? x : x.contiguous()).detach();
}

/// [B, H, L, C], lying in memory as [B, L, H, C]; as [H, B, L, C] where heads lie furthest apart:
/// those of an ensemble, whose members come first.
Tensor empty_by_token(const Tensor& like, std::int64_t length, std::int64_t channels) {
  if (like.stride(1) > like.stride(0) && like.stride(0) >= like.stride(2)) {
    return at::empty({like.size(1), like.size(0), length, channels}, like.options())
        .transpose(0, 1);
  }
  return at::empty({like.size(0), length, like.size(1), channels}, like.options()).transpose(1, 2);
}

/// What is computed forward, and what the backward pass reads.
struct Attended {
  Tensor out;   ///< [B, H, Lq, Dv]
  Tensor kept;  ///< small heads: their weights, undefined where not wanted; else what rows gathered
};

Attended attend_heads(const HeadwiseProblem& in, bool keep) {
  const OwnKernelFlops flops(in.q.size(0) * in.q.size(1) * in.q.size(2) * in.k.size(2) *
                             (in.q.size(3) + in.v.size(3)));
  Tensor out = empty_by_token(in.q, in.q.size(2), in.v.size(3));
  if (!heads_are_small(in)) return {out, attend_blocks(in, out)};
  const Tensor weights = keep ? room_for_small_weights(in) : Tensor();
  attend_small_heads(in, weights, out);
  return {out, weights};
}

/// Gradients of Q, K and V. Where K was brought to unit length, dK is the gradient of what it was
/// before.
std::array<Tensor, 3> differentiate_heads(const HeadwiseProblem& in, const Attended& attended,
                                          const Tensor& grad) {
  const Tensor dq = empty_by_token(in.q, in.q.size(2), in.q.size(3));
  const Tensor dk = empty_by_token(in.k, in.k.size(2), in.k.size(3));
  const Tensor dv = empty_by_token(in.v, in.v.size(2), in.v.size(3));
  if (heads_are_small(in)) {
    differentiate_small_heads(in, attended.kept, grad, dq, dk, dv);
  } else {
    differentiate_blocks(in, attended.kept, attended.out, grad, dq, dk, dv);
  }
  return {dq, dk, dv};
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Autograd cannot take an undefined tensor as an argument of its own, so it goes in a struct.
struct Settings {
  Tensor hidden;
  PlaceRules rules;
  double scale;
  UnitKeys unit;
  DropoutMask drops;
};

HeadwiseProblem problem_of(const Tensor& q, const Tensor& k, const Tensor& v,
                           const Settings& settings, const Tensor& inverse) {
  return {rows_dense(q),  rows_dense(k), rows_dense(v),  settings.hidden, settings.rules,
          settings.scale, settings.unit, settings.drops, inverse};
}

/// Room for 1 / |k| of unit keys; undefined where there are none.
Tensor room_for_inverse(const Tensor& k, const UnitKeys& unit) {
  return unit ? at::empty({k.size(0), k.size(1), k.size(2), 1}, k.options()) : Tensor();
}

/// What dropout multiplies the weights by, [B, H, Lq, Lk]; undefined where none are dropped.
Tensor factors_of(const Tensor& q, const Tensor& k, const DropoutMask& drops) {
  if (drops.p == 0) return {};
  Tensor factors = at::empty({q.size(0), q.size(1), q.size(2), k.size(2)}, q.options());
  AT_DISPATCH_FLOATING_TYPES(q.scalar_type(), "dropout_factors", [&] {
    dropout_factors(factors.data_ptr<scalar_t>(), 0, factors.numel(), drops);
  });
  return factors;
}

/// What is hidden, as one tensor of pairs; undefined where nothing is.
Tensor hidden_pairs(const Settings& settings, std::int64_t queries, std::int64_t keys) {
  if (!settings.rules.any()) return settings.hidden;
  const Tensor unseen = at::ones({queries, keys}, at::kBool);
  for (std::int64_t i = 0; i < queries; ++i) {
    const KeyRange seen = settings.rules.seen(i, queries, keys);
    unseen[i].narrow(0, seen.begin, seen.end - seen.begin).fill_(false);
  }
  return settings.hidden.defined() ? settings.hidden.logical_or(unseen) : unseen;
}

/// The gradients as operations that autograd can follow.
std::array<Tensor, 3> compose_gradients(const Tensor& q, const Tensor& k, const Tensor& v,
                                        const Settings& settings, const Tensor& grad) {
  const Tensor keys = settings.unit ? unit(k, *settings.unit) : k;
  auto [dq, dk, dv] =
      composed_softmax_gradients(q, keys, v, hidden_pairs(settings, q.size(2), k.size(2)), grad,
                                 settings.scale, factors_of(q, k, settings.drops));
  if (settings.unit) dk = composed_unit_gradient(k, dk, *settings.unit);
  return {dq, dk, dv};
}

struct HeadwiseSoftmax : public torch::autograd::Function<HeadwiseSoftmax> {
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Settings& settings) {
    const Tensor inverse = room_for_inverse(k, settings.unit);
    const HeadwiseProblem problem = problem_of(q, k, v, settings, inverse);
    const Attended attended = attend_heads(problem, true);
    // Heads that keep their weights do not need the output again.
    const Tensor out = heads_are_small(problem) ? Tensor() : attended.out;
    context->save_for_backward({q, k, v, settings.hidden, inverse, out, attended.kept});
    context->saved_data["causal"] = settings.rules.causal;
    context->saved_data["window"] = settings.rules.window;
    context->saved_data["scale"] = settings.scale;
    context->saved_data["eps"] = settings.unit.value_or(0);
    context->saved_data["key"] = static_cast<std::int64_t>(settings.drops.key);
    context->saved_data["p"] = settings.drops.p;
    return attended.out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], &grad = gradients[0];
    const Tensor& inverse = saved[4];
    const double eps = context->saved_data["eps"].toDouble();
    const Settings settings{
        saved[3],
        {context->saved_data["causal"].toBool(), context->saved_data["window"].toInt()},
        context->saved_data["scale"].toDouble(),
        inverse.defined() ? UnitKeys(eps) : UnitKeys(),
        {static_cast<std::uint64_t>(context->saved_data["key"].toInt()),
         context->saved_data["p"].toDouble()}};
    const auto [dq, dk, dv] =
        at::GradMode::is_enabled()  // the caller asked for a graph of this backward pass
            ? compose_gradients(q, k, v, settings, grad)
            : differentiate_heads(problem_of(q, k, v, settings, inverse),
                                  {saved[5].defined() ? saved[5].detach() : Tensor(), saved[6]},
                                  rows_dense(grad));
    return {dq, dk, dv, Tensor()};
  }
};

}  // namespace

std::array<Tensor, 3> composed_softmax_gradients(const Tensor& q, const Tensor& k, const Tensor& v,
                                                 const Tensor& hidden, const Tensor& grad,
                                                 double scale, const Tensor& factors) {
  Tensor logits = at::matmul(q, k.transpose(-2, -1)) * scale;
  if (hidden.defined()) logits = logits.masked_fill(hidden, kHidden);
  Tensor p = logits.softmax(-1);
  if (hidden.defined()) p = p.masked_fill(hidden, 0);
  const Tensor kept = factors.defined() ? p * factors : p;
  Tensor dp = at::matmul(grad, v.transpose(-2, -1));
  if (factors.defined()) dp = dp * factors;
  const Tensor dl = p * (dp - (dp * p).sum(-1, true)) * scale;
  return {at::matmul(dl, k), at::matmul(dl.transpose(-2, -1), q),
          at::matmul(kept.transpose(-2, -1), grad)};
}

bool cpu_softmax_attention_takes(const Tensor& queries, const Tensor& keys, const Tensor& values) {
  const at::ScalarType dtype = queries.scalar_type();
  return queries.device().is_cpu() && (dtype == at::kFloat || dtype == at::kDouble) &&
         queries.numel() > 0 && keys.numel() > 0 && values.numel() > 0;
}

Tensor cpu_softmax_attention(const Tensor& queries, const Tensor& keys, const Tensor& values,
                             const Tensor& visible, double scale, UnitKeys unit_keys,
                             double dropout, const PlaceRules& rules) {
  Settings settings{{}, rules, scale, unit_keys, draw_dropout(dropout)};
  if (visible.defined()) {
    settings.hidden = visible.logical_not().expand(
        {queries.size(0), queries.size(1), queries.size(2), keys.size(2)});
  }
  const bool gradients =
      at::GradMode::is_enabled() &&
      (queries.requires_grad() || keys.requires_grad() || values.requires_grad());
  if (gradients) return HeadwiseSoftmax::apply(queries, keys, values, settings);
  const Tensor inverse = room_for_inverse(keys, unit_keys);
  return attend_heads(problem_of(queries, keys, values, settings, inverse), false).out;
}

}  // namespace attnlab
