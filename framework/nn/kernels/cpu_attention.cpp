// Softmax attention on the CPU, a head at a time: see the header.
#include "framework/nn/kernels/cpu_attention.h"

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
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

/// Which gradients are wanted besides those of q, k, v and relative positions.
struct Wanted {
  bool pairs = false;  ///< of the bias, for each pair
  bool by_query = false, by_key = false, by_distance = false;
  bool sink = false;
};

/// Where K was brought to unit length, dK is the gradient of what it was before.
HeadGradients differentiate_heads(const HeadwiseProblem& in, const Attended& attended,
                                  const Tensor& grad, const Wanted& wanted) {
  const auto like = [](const Tensor& x) {
    return x.defined() ? empty_by_token(x, x.size(2), x.size(3)) : Tensor();
  };
  std::vector<Tensor> qkv = room_for_packed({in.q, in.k, in.v});
  if (qkv.empty()) {
    qkv = room_for_packed({in.k, in.v});
    if (qkv.empty()) qkv = {like(in.k), like(in.v)};
    qkv.insert(qkv.begin(), like(in.q));
  }
  const std::int64_t batch = in.q.size(0), heads = in.q.size(1);
  const std::int64_t queries = in.q.size(2), keys = in.k.size(2);
  const auto sums = [&](bool want, std::int64_t length) {
    return want ? at::empty({batch, heads, length}, in.q.options()) : Tensor();
  };
  HeadGradients to{qkv[0],
                   qkv[1],
                   qkv[2],
                   wanted.pairs ? at::zeros(in.bias.sizes(), in.bias.options()) : Tensor(),
                   like(in.relative_q),
                   like(in.relative_k),
                   sums(wanted.by_query, queries),
                   sums(wanted.by_key, keys),
                   sums(wanted.by_distance, queries + keys - 1),
                   wanted.sink ? at::empty({batch, heads}, in.q.options()) : Tensor()};
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
  double cap = 0;
  bool signs = false;
  const RowRule* rule = nullptr;
  Tensor factor = {};

  /// Whether there is more than softmax of products, bias and relative positions.
  bool has_terms() const { return cap > 0 || signs || rule != nullptr; }
};

/// What has a gradient and may be missing: undefined, or of no elements.
struct Extras {
  Tensor bias, relative_q, relative_k;
  Tensor by_distance = {}, at_queries = {}, at_keys = {}, sink = {};  ///< LogitTerms' four
};

bool is_given(const Tensor& x) { return x.defined() && x.numel() > 0; }
Tensor given(const Tensor& x) { return is_given(x) ? x : Tensor(); }

/// What a bias differs by: pairs, queries alone (one number may serve all), or keys alone.
enum class BiasOf { pairs, queries, keys };

BiasOf bias_of(const Tensor& bias) {
  if (bias.dim() == 0 || bias.size(-1) == 1) return BiasOf::queries;
  return bias.dim() == 1 || bias.size(-2) == 1 ? BiasOf::keys : BiasOf::pairs;
}

/// x over [B, H, Lq, Lk], or undefined where there is none.
Tensor over_pairs(const Tensor& x, const Tensor& q, const Tensor& k) {
  if (!x.defined() || x.numel() == 0) return {};
  return x.detach().expand({q.size(0), q.size(1), q.size(2), k.size(2)});
}

/// x, [B or 1, H or 1, length or 1], over [B, H, length, 1] with neighbours along the length; or
/// undefined where there is none.
Tensor over_rows(const Tensor& x, const Tensor& q, std::int64_t length) {
  if (!is_given(x)) return {};
  Tensor rows = x.detach().expand({x.size(0), x.size(1), length});
  if (rows.stride(2) != 1) rows = rows.contiguous();
  return rows.expand({q.size(0), q.size(1), length}).unsqueeze(-1);
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
  in.by_distance = over_rows(extras.by_distance, q, q.size(2) + k.size(2) - 1);
  in.at_queries = over_rows(extras.at_queries, q, q.size(2));
  in.at_keys = over_rows(extras.at_keys, q, k.size(2));
  if (is_given(extras.sink)) in.sink = over_rows(extras.sink.view({1, -1, 1}), q, 1);
  in.cap = settings.cap, in.signs = settings.signs, in.rule = settings.rule;
  if (settings.factor.defined()) in.factor = over_rows(settings.factor.squeeze(-1), q, q.size(2));
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

/// The inputs of HeadwiseSoftmax that take gradients, in its order.
constexpr std::size_t kInputs = 10;

Extras extras_of(const variable_list& inputs) {
  return {inputs[3], inputs[4], inputs[5], inputs[6], inputs[7], inputs[8], inputs[9]};
}

/// The whole as operations that autograd can follow.
Tensor compose(const variable_list& inputs, const Settings& settings) {
  const Tensor &q = inputs[0], &k = inputs[1], &v = inputs[2];
  const Extras extras = extras_of(inputs);
  const std::int64_t columns = k.size(2);
  const Tensor keys = settings.unit ? unit(k, *settings.unit) : k;
  Tensor logits = product(q, keys.transpose(-2, -1)) * settings.scale;
  if (is_given(extras.relative_q)) {
    const Tensor by_distance =
        product(extras.relative_q, extras.relative_k.transpose(-2, -1)) * settings.scale;
    logits = logits + shift_distances(by_distance, columns);
  }
  LogitTerms terms;
  terms.cap = settings.cap, terms.signs = settings.signs;
  terms.bias = given(extras.bias), terms.distance_bias = given(extras.by_distance);
  terms.query_sums = given(extras.at_queries), terms.key_sums = given(extras.at_keys);
  terms.sink = given(extras.sink);
  if (terms.cap > 0) logits = capped(logits, terms.cap);
  if (terms.adds()) logits = logits + terms.added(columns);
  const Tensor hidden = hidden_pairs(settings, q.size(2), columns);
  Tensor weights = settings.rule != nullptr
                       ? RowWeights{settings.rule, {}, settings.factor}.of(logits, hidden)
                       : softmax_with(terms, logits, hidden);
  const Tensor factors = factors_of(q, k, settings.drops);
  if (factors.defined()) weights = weights * factors;
  return product(weights, v);
}

/// Gradients through `compose`, themselves differentiable; undefined where an input takes none.
variable_list differentiate_composed(const variable_list& inputs, const Settings& settings,
                                     const Tensor& grad) {
  variable_list own, wanted;
  for (const Tensor& x : inputs) {
    own.push_back(x.requires_grad() ? x.view_as(x) : x);  // two inputs may be one tensor
    if (x.requires_grad()) wanted.push_back(own.back());
  }
  const variable_list found =
      torch::autograd::grad({compose(own, settings)}, wanted, {grad}, /*retain_graph=*/true,
                            /*create_graph=*/true, /*allow_unused=*/true);
  variable_list all;
  std::size_t next = 0;
  for (const Tensor& x : inputs) all.push_back(x.requires_grad() ? found[next++] : Tensor());
  return all;
}

struct HeadwiseSoftmax : public torch::autograd::Function<HeadwiseSoftmax> {
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& bias, const Tensor& relative_q, const Tensor& relative_k,
                        const Tensor& by_distance, const Tensor& at_queries, const Tensor& at_keys,
                        const Tensor& sink, const Settings& settings) {
    const Tensor inverse = room_for_inverse(k, settings.unit);
    const Extras extras{bias, relative_q, relative_k, by_distance, at_queries, at_keys, sink};
    const HeadwiseProblem problem = problem_of(q, k, v, settings, extras, inverse);
    const Attended attended = attend_heads(problem, true);
    // Heads that keep their weights do not need the output again.
    const Tensor out = heads_are_small(problem) ? Tensor() : attended.out;
    context->save_for_backward({q, k, v, bias, relative_q, relative_k, by_distance, at_queries,
                                at_keys, sink, settings.pairs, settings.key_valid, settings.factor,
                                inverse, out, attended.kept});
    context->saved_data["causal"] = settings.rules.causal;
    context->saved_data["window"] = settings.rules.window;
    context->saved_data["scale"] = settings.scale;
    context->saved_data["eps"] = settings.unit.value_or(0);
    context->saved_data["key"] = static_cast<std::int64_t>(settings.drops.key);
    context->saved_data["p"] = settings.drops.p;
    context->saved_data["rounds"] = settings.rounds;
    context->saved_data["cap"] = settings.cap;
    context->saved_data["signs"] = settings.signs;
    context->saved_data["rule"] = reinterpret_cast<std::int64_t>(settings.rule);
    return attended.out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const variable_list inputs(saved.begin(), saved.begin() + kInputs);
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], &grad = gradients[0];
    const Extras extras = extras_of(inputs);
    const Tensor &inverse = saved[kInputs + 3], &out = saved[kInputs + 4];
    const double eps = context->saved_data["eps"].toDouble();
    const Settings settings{
        saved[kInputs],
        saved[kInputs + 1],
        {context->saved_data["causal"].toBool(), context->saved_data["window"].toInt()},
        context->saved_data["scale"].toDouble(),
        inverse.defined() ? UnitKeys(eps) : UnitKeys(),
        {static_cast<std::uint64_t>(context->saved_data["key"].toInt()),
         context->saved_data["p"].toDouble()},
        context->saved_data["rounds"].toBool(),
        context->saved_data["cap"].toDouble(),
        context->saved_data["signs"].toBool(),
        reinterpret_cast<const RowRule*>(context->saved_data["rule"].toInt()),
        saved[kInputs + 2]};
    variable_list to(kInputs + 1);     // the settings take none
    if (at::GradMode::is_enabled()) {  // the caller asked for a graph of this backward pass
      const bool terms = settings.has_terms() || is_given(extras.by_distance) ||
                         is_given(extras.at_queries) || is_given(extras.at_keys) ||
                         is_given(extras.sink);
      if (terms) {
        to = differentiate_composed(inputs, settings, grad);
        to.emplace_back();
        return to;
      }
      const ComposedGradients all = compose_gradients(q, k, v, settings, extras, grad);
      to[0] = all.q, to[1] = all.k, to[2] = all.v;
      to[3] = summed_to(all.bias, extras.bias);
      to[4] = all.relative_queries;
      to[5] = summed_to(all.relative_keys, extras.relative_k);
      return to;
    }
    const auto wants = [&](std::size_t input) {
      return is_given(saved[input]) && context->needs_input_grad(input);
    };
    const BiasOf kind = bias_of(extras.bias);
    const bool bias = wants(3), sums_queries = wants(7), sums_keys = wants(8);
    const Wanted wanted{.pairs = bias && kind == BiasOf::pairs,
                        .by_query = sums_queries || (bias && kind == BiasOf::queries),
                        .by_key = sums_keys || (bias && kind == BiasOf::keys),
                        .by_distance = wants(6),
                        .sink = wants(9)};
    const HeadGradients all = differentiate_heads(
        problem_of(q, k, v, settings, extras, inverse),
        {out.defined() ? out.detach() : Tensor(), saved[kInputs + 5]}, rows_dense(grad), wanted);
    to[0] = all.q, to[1] = all.k, to[2] = all.v;
    if (bias) {
      const Tensor of_bias = kind == BiasOf::pairs     ? all.bias
                             : kind == BiasOf::queries ? all.by_query.unsqueeze(-1)
                                                       : all.by_key.unsqueeze(-2);
      to[3] = summed_to(of_bias, extras.bias);
    }
    to[4] = all.relative_q;
    to[5] = summed_to(all.relative_k, extras.relative_k);
    to[6] = summed_to(all.by_distance, extras.by_distance);
    if (sums_queries) to[7] = summed_to(all.by_query.clone(), extras.at_queries);
    if (sums_keys) to[8] = summed_to(all.by_key.neg(), extras.at_keys);
    to[9] = summed_to(all.sink, extras.sink);
    return to;
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
  const LogitTerms& terms = asked.terms;
  const RowWeights& each = asked.each;
  const Settings settings{asked.pairs,
                          asked.key_valid,
                          asked.rules,
                          asked.scale,
                          asked.unit_keys,
                          draw_dropout(asked.dropout),
                          rounds_heads(queries),
                          terms.cap,
                          terms.signs,
                          each.rule,
                          each.factor};
  const auto or_none = [&](const Tensor& x) {
    return x.defined() ? x : at::empty({0}, queries.options());
  };
  // A rule's shift is one number a query, as a term's is.
  const Tensor shift = each.shift.defined() ? each.shift.squeeze(-1) : Tensor();
  const Extras extras{or_none(sum_of_given(asked.bias, terms.bias)),
                      or_none(asked.relative_queries),
                      or_none(asked.relative_keys),
                      or_none(terms.distance_bias),
                      or_none(sum_of_given(terms.query_sums, shift)),
                      or_none(terms.key_sums),
                      or_none(terms.sink)};
  const variable_list inputs = {queries,
                                keys,
                                values,
                                extras.bias,
                                extras.relative_q,
                                extras.relative_k,
                                extras.by_distance,
                                extras.at_queries,
                                extras.at_keys,
                                extras.sink};
  const bool gradients =
      at::GradMode::is_enabled() &&
      std::any_of(inputs.begin(), inputs.end(), [](const Tensor& x) { return x.requires_grad(); });
  if (gradients) {
    return HeadwiseSoftmax::apply(queries, keys, values, extras.bias, extras.relative_q,
                                  extras.relative_k, extras.by_distance, extras.at_queries,
                                  extras.at_keys, extras.sink, settings);
  }
  const Tensor inverse = room_for_inverse(keys, settings.unit);
  return attend_heads(problem_of(queries, keys, values, settings, extras, inverse), false).out;
}

}  // namespace attnlab
