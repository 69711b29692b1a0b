// Softmax attention on the CPU, a head at a time: see the header.
#include "framework/nn/kernels/cpu_attention.h"

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

#include "framework/nn/kernels/block_attention.h"
#include "framework/nn/kernels/packed_heads.h"
#include "framework/nn/kernels/precision.h"
#include "framework/nn/kernels/relative_shift.h"
#include "framework/nn/kernels/small_attention.h"
#include "framework/tensor/flop_counter.h"

namespace attnlab {
namespace {

// The logit of a hidden pair: below all others, yet finite, so that a row of them has a softmax.
constexpr double kHidden = std::numeric_limits<float>::lowest();

/// What is computed forward, and what the backward pass reads.
struct Attended {
  Tensor out;   ///< [B, H, Lq, Dv]
  Tensor kept;  ///< small heads: their weights, undefined where not wanted; else what rows gathered
};

Attended attend_heads(const HeadwiseProblem& in, bool keep) {
  const std::int64_t queries = in.q.size(2), keys = in.k.size(2), dim = in.q.size(3);
  const std::int64_t by_distance = in.relative_q.defined() ? (queries + keys - 1) * dim : 0;
  const OwnKernelFlops flops("attnlab::attention", in.q.size(0) * in.q.size(1) * queries *
                                                       (keys * (dim + in.v.size(3)) + by_distance));
  Tensor out = empty_by_token(in.q, queries, in.v.size(3));
  if (!heads_are_small(in)) return {out, attend_blocks(in, out)};
  const Tensor weights = keep ? room_for_small_weights(in) : Tensor();
  attend_small_heads(in, weights, out);
  return {out, weights};
}

/// Where K was brought to unit length, dK is the gradient of what it was before.
/// @param of_bias  whether the bias's gradient is wanted
HeadGradients differentiate_heads(const HeadwiseProblem& in, const Attended& attended,
                                  const Tensor& grad, bool of_bias) {
  const auto like = [](const Tensor& x) {
    return x.defined() ? empty_by_token(x, x.size(2), x.size(3)) : Tensor();
  };
  std::vector<Tensor> qkv = room_for_packed({in.q, in.k, in.v});
  if (qkv.empty()) {
    qkv = room_for_packed({in.k, in.v});
    if (qkv.empty()) qkv = {like(in.k), like(in.v)};
    qkv.insert(qkv.begin(), like(in.q));
  }
  HeadGradients to{qkv[0],
                   qkv[1],
                   qkv[2],
                   of_bias ? at::zeros(in.bias.sizes(), in.bias.options()) : Tensor(),
                   like(in.relative_q),
                   like(in.relative_k)};
  if (heads_are_small(in)) {
    differentiate_small_heads(in, attended.kept, grad, to);
  } else {
    differentiate_blocks(in, attended.kept, attended.out, grad, to);
  }
  return to;
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// What has no gradient. Autograd takes no undefined tensor as an argument of its own, so those
/// that may be go in a struct.
struct Settings {
  Tensor pairs, key_valid;
  PlaceRules rules;
  double scale;
  UnitKeys unit;
  DropoutMask drops;
  bool rounds;
};

/// What has a gradient and may be missing: of no elements then.
struct Extras {
  Tensor bias, relative_q, relative_k;
};

/// x over [B, H, Lq, Lk], or undefined where there is none.
Tensor over_pairs(const Tensor& x, const Tensor& q, const Tensor& k) {
  if (!x.defined() || x.numel() == 0) return {};
  return x.detach().expand({q.size(0), q.size(1), q.size(2), k.size(2)});
}

HeadwiseProblem problem_of(const Tensor& q, const Tensor& k, const Tensor& v,
                           const Settings& settings, const Extras& extras, const Tensor& inverse) {
  HeadwiseProblem in;
  in.q = rows_dense(q), in.k = rows_dense(k), in.v = rows_dense(v);
  in.pairs = over_pairs(settings.pairs, q, k);
  if (settings.key_valid.defined()) {
    in.valid = over_pairs(settings.key_valid.unsqueeze(1).unsqueeze(1), q, k);
  }
  in.rules = settings.rules, in.scale = settings.scale, in.unit = settings.unit;
  in.drops = settings.drops, in.inverse = inverse, in.rounds = settings.rounds;
  in.bias = over_pairs(extras.bias, q, k);
  if (extras.relative_q.numel() > 0) {
    in.relative_q = rows_dense(extras.relative_q);
    in.relative_k = rows_dense(extras.relative_k)
                        .expand({q.size(0), q.size(1), q.size(2) + k.size(2) - 1, q.size(3)});
  }
  return in;
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
  Tensor hidden;
  const auto add = [&](const Tensor& more) {
    hidden = hidden.defined() ? hidden.logical_or(more) : more;
  };
  if (settings.pairs.defined()) add(settings.pairs.logical_not());
  if (settings.key_valid.defined()) {
    add(settings.key_valid.logical_not().unsqueeze(1).unsqueeze(1));
  }
  if (!settings.rules.any()) return hidden;
  const Tensor unseen = at::ones({queries, keys}, at::kBool);
  for (std::int64_t i = 0; i < queries; ++i) {
    const KeyRange seen = settings.rules.seen(i, queries, keys);
    unseen[i].narrow(0, seen.begin, seen.end - seen.begin).fill_(false);
  }
  add(unseen);
  return hidden;
}

/// The gradients as operations that autograd can follow.
ComposedGradients compose_gradients(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Settings& settings, const Extras& extras,
                                    const Tensor& grad) {
  const Tensor keys = settings.unit ? unit(k, *settings.unit) : k;
  const auto given = [](const Tensor& x) { return x.numel() > 0 ? x : Tensor(); };
  ComposedGradients all =
      composed_softmax_gradients(q, keys, v, grad,
                                 {settings.scale, hidden_pairs(settings, q.size(2), k.size(2)),
                                  factors_of(q, k, settings.drops), given(extras.bias),
                                  given(extras.relative_q), given(extras.relative_k)});
  if (settings.unit) all.k = composed_unit_gradient(k, all.k, *settings.unit);
  return all;
}

/// A gradient over all pairs or heads, for what was broadcast over them; undefined stays.
Tensor summed_to(const Tensor& grad, const Tensor& x) {
  return grad.defined() ? grad.sum_to_size(x.sizes()) : grad;
}

struct HeadwiseSoftmax : public torch::autograd::Function<HeadwiseSoftmax> {
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& bias, const Tensor& relative_q, const Tensor& relative_k,
                        const Settings& settings) {
    const Tensor inverse = room_for_inverse(k, settings.unit);
    const HeadwiseProblem problem =
        problem_of(q, k, v, settings, {bias, relative_q, relative_k}, inverse);
    const Attended attended = attend_heads(problem, true);
    // Heads that keep their weights do not need the output again.
    const Tensor out = heads_are_small(problem) ? Tensor() : attended.out;
    context->save_for_backward({q, k, v, bias, relative_q, relative_k, settings.pairs,
                                settings.key_valid, inverse, out, attended.kept});
    context->saved_data["causal"] = settings.rules.causal;
    context->saved_data["window"] = settings.rules.window;
    context->saved_data["scale"] = settings.scale;
    context->saved_data["eps"] = settings.unit.value_or(0);
    context->saved_data["key"] = static_cast<std::int64_t>(settings.drops.key);
    context->saved_data["p"] = settings.drops.p;
    context->saved_data["rounds"] = settings.rounds;
    return attended.out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], &grad = gradients[0];
    const Extras extras{saved[3], saved[4], saved[5]};
    const Tensor &inverse = saved[8], &out = saved[9];
    const double eps = context->saved_data["eps"].toDouble();
    const Settings settings{
        saved[6],
        saved[7],
        {context->saved_data["causal"].toBool(), context->saved_data["window"].toInt()},
        context->saved_data["scale"].toDouble(),
        inverse.defined() ? UnitKeys(eps) : UnitKeys(),
        {static_cast<std::uint64_t>(context->saved_data["key"].toInt()),
         context->saved_data["p"].toDouble()},
        context->saved_data["rounds"].toBool()};
    if (at::GradMode::is_enabled()) {  // the caller asked for a graph of this backward pass
      const ComposedGradients all = compose_gradients(q, k, v, settings, extras, grad);
      return {all.q,
              all.k,
              all.v,
              summed_to(all.bias, extras.bias),
              all.relative_queries,
              summed_to(all.relative_keys, extras.relative_k),
              Tensor()};
    }
    const HeadGradients all =
        differentiate_heads(problem_of(q, k, v, settings, extras, inverse),
                            {out.defined() ? out.detach() : Tensor(), saved[10]}, rows_dense(grad),
                            extras.bias.numel() > 0 && context->needs_input_grad(3));
    return {all.q,          all.k,
            all.v,          summed_to(all.bias, extras.bias),
            all.relative_q, summed_to(all.relative_k, extras.relative_k),
            Tensor()};
  }
};

}  // namespace

ComposedGradients composed_softmax_gradients(const Tensor& q, const Tensor& k, const Tensor& v,
                                             const Tensor& grad, const ComposedLogits& in) {
  const at::ScalarType dtype = q.scalar_type(), wide = at::toOpMathType(dtype);
  if (wide != dtype) {  // narrower numbers do not hold kHidden
    const auto to = [](const Tensor& x, at::ScalarType type) {
      return x.defined() ? x.to(type) : x;
    };
    ComposedLogits widened = in;
    for (Tensor* x :
         {&widened.factors, &widened.bias, &widened.relative_queries, &widened.relative_keys}) {
      *x = to(*x, wide);
    }
    ComposedGradients all =
        composed_softmax_gradients(q.to(wide), k.to(wide), v.to(wide), grad.to(wide), widened);
    for (Tensor* x :
         {&all.q, &all.k, &all.v, &all.bias, &all.relative_queries, &all.relative_keys}) {
      *x = to(*x, dtype);
    }
    return all;
  }
  Tensor logits = product(q, k.transpose(-2, -1)) * in.scale;
  if (in.relative_queries.defined()) {
    const Tensor by_distance =
        product(in.relative_queries, in.relative_keys.transpose(-2, -1)) * in.scale;
    logits = logits + shift_distances(by_distance, k.size(2));
  }
  if (in.bias.defined()) logits = logits + in.bias;
  if (in.hidden.defined()) logits = logits.masked_fill(in.hidden, kHidden);
  Tensor p = logits.softmax(-1);
  if (in.hidden.defined()) p = p.masked_fill(in.hidden, 0);
  const Tensor kept = in.factors.defined() ? p * in.factors : p;
  Tensor dp = product(grad, v.transpose(-2, -1));
  if (in.factors.defined()) dp = dp * in.factors;
  const Tensor of_logits = p * (dp - (dp * p).sum(-1, true)), dl = of_logits * in.scale;
  ComposedGradients all{product(dl, k), product(dl.transpose(-2, -1), q),
                        product(kept.transpose(-2, -1), grad)};
  if (in.bias.defined()) all.bias = of_logits;
  if (in.relative_queries.defined()) {
    const Tensor by_distance = unshift_distances(dl);
    all.relative_queries = product(by_distance, in.relative_keys);
    all.relative_keys = product(by_distance.transpose(-2, -1), in.relative_queries);
  }
  return all;
}

ComposedGradients composed_headwise_gradients(const HeadwiseProblem& in, const Tensor& q,
                                              const Tensor& k, const Tensor& v,
                                              const Tensor& grad) {
  const Tensor none = at::empty({0}, q.options());
  return compose_gradients(q, k, v,
                           {in.pairs, in.valid, in.rules, in.scale, in.unit, in.drops, in.rounds},
                           {none, none, none}, grad);
}

bool cpu_softmax_attention_takes(const Tensor& queries, const Tensor& keys, const Tensor& values) {
  const at::ScalarType dtype = queries.scalar_type();
  return queries.device().is_cpu() && (dtype == at::kFloat || dtype == at::kDouble) &&
         queries.numel() > 0 && keys.numel() > 0 && values.numel() > 0;
}

Tensor cpu_softmax_attention(const Tensor& queries, const Tensor& keys, const Tensor& values,
                             const SoftmaxQuestion& asked) {
  const Settings settings{asked.pairs,          asked.key_valid, asked.rules,
                          asked.scale,          asked.unit_keys, draw_dropout(asked.dropout),
                          rounds_heads(queries)};
  const auto or_none = [&](const Tensor& x) {
    return x.defined() ? x : at::empty({0}, queries.options());
  };
  const Extras extras{or_none(asked.bias), or_none(asked.relative_queries),
                      or_none(asked.relative_keys)};
  const auto wants = [](const Tensor& x) { return x.requires_grad(); };
  const bool gradients = at::GradMode::is_enabled() &&
                         (wants(queries) || wants(keys) || wants(values) || wants(extras.bias) ||
                          wants(extras.relative_q) || wants(extras.relative_k));
  if (gradients) {
    return HeadwiseSoftmax::apply(queries, keys, values, extras.bias, extras.relative_q,
                                  extras.relative_k, settings);
  }
  const Tensor inverse = room_for_inverse(keys, settings.unit);
  return attend_heads(problem_of(queries, keys, values, settings, extras, inverse), false).out;
}

}  // namespace attnlab
