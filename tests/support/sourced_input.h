// Inputs for attentions that read their layer's input or need the causal rule, and by plain loops
// what such attentions are made of.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/attended.h"
#include "tests/support/gradcheck.h"
#include "tests/support/naive_weights.h"
#include "tests/support/plugins.h"

namespace attnlab::testing {

/// The shape of an attention for such an input, with sources of 5, 6 and 7 channels.
inline AttentionShape sourced_shape(const AttentionInput& in, std::int64_t layer = 0) {
  AttentionShape shape = shape_of(in, layer, layer + 1);
  shape.query_width = 5;
  shape.key_width = 6;
  shape.value_width = 7;
  return shape;
}

/// The input with random sources, of one model.
inline AttentionInput with_sources(AttentionInput in) {
  const AttentionShape shape = sourced_shape(in);
  const auto drawn = [&](std::int64_t length, std::int64_t width) {
    return at::randn({in.batch(), length, width}, at::kDouble);
  };
  in.query_source = drawn(in.query_count(), shape.query_width);
  in.key_source = drawn(in.key_count(), shape.key_width);
  in.value_source = drawn(in.key_count(), shape.value_width);
  return in;
}

/// For attentions that refuse them.
inline AttentionInput without_sources(AttentionInput in) {
  in.query_source = in.key_source = in.value_source = Tensor();
  return in;
}

/// The first tokens of an input alone, as many queries as keys.
inline AttentionInput with_equal_lengths(AttentionInput in) {
  const std::int64_t length = std::min(in.query_count(), in.key_count());
  const auto cut = [&](Tensor& x, std::int64_t dim) {
    if (x.defined() && x.dim() >= -dim && x.size(dim) > 1) x = x.narrow(dim, 0, length);
  };
  for (Tensor* x : {&in.queries, &in.keys, &in.values}) cut(*x, -2);
  cut(in.visible.key_valid, -1);
  for (const std::int64_t dim : {-2, -1}) {
    for (Tensor* x : {&in.visible.pairs, &in.bias}) cut(*x, dim);
  }
  return in;
}

/// One input for each rule that an attention's traits cover, with what it cannot do without.
inline std::vector<NamedInput> inputs_for(const AttentionTraits& has) {
  std::vector<NamedInput> all = rules_by(has).covered;
  for (NamedInput& one : all) {
    if (!has.different_lengths) one.input = with_equal_lengths(one.input);
    if (has.ordered) one.input.visible.causal = true;
    if (has.sources) one.input = with_sources(one.input);
  }
  return all;
}

/// A causal input with sources, as far as traits ask for them: B 1, H 2, D 4, Dv 3.
inline AttentionInput small_input(const AttentionTraits& has, std::int64_t length) {
  AttentionInput in = random_input(1, 2, length, length, 4, 3);
  in.visible.causal = has.ordered;
  return has.sources ? with_sources(in) : in;
}

/// An attention for such inputs in float64 and evaluation mode, its parameters drawn at random.
inline std::shared_ptr<Attention> drawn_attention(const std::string& id, const AttentionInput& in,
                                                  const std::string& options = "{}",
                                                  std::int64_t layer = 0) {
  auto attention = make_attention(id, sourced_shape(in, layer), options);
  attention->to(at::kDouble);
  attention->eval();
  const at::NoGradGuard no_gradients;
  for (Tensor& p : attention->parameters()) p.copy_(at::randn_like(p));
  return attention;
}

/// The only record of a traced call.
inline LayerTrace traced(Attention& attention, const AttentionInput& in) {
  AttentionTrace trace;
  trace.weights = trace.logits = trace.norms = trace.entropy = trace.bias = true;
  attended(attention, in, &trace);
  EXPECT_EQ(trace.layers.size(), 1u);
  return trace.layers.at(0);
}

/// Softmax over the visible keys; rows that see nothing are zeros.
/// @param logits   [B, H, Lq, Lk] float64
/// @param visible  [B, H, Lq, Lk] bool
inline Tensor naive_softmax(const Tensor& logits, const Tensor& visible) {
  Tensor weights = at::zeros_like(logits);
  const auto from = logits.accessor<double, 4>();
  const auto sees = visible.accessor<bool, 4>();
  auto to = weights.accessor<double, 4>();
  each_pair(logits, [&](Index b, Index h, Index i, Index j) {
    if (!sees[b][h][i][j]) return;
    Row seen;
    for (Index k = 0; k < logits.size(3); ++k) {
      if (sees[b][h][i][k]) seen.push_back(from[b][h][i][k]);
    }
    to[b][h][i][j] = std::exp(from[b][h][i][j] - log_sum_exp(seen));
  });
  return weights;
}

/// What a SourceMap of one model gives. @param name  of the module: "gate"
/// @returns [B, H, L, channels].
inline Tensor naive_source_map(const Attention& attention, const std::string& name,
                               const Tensor& source, Index channels) {
  const auto parameters = attention.named_parameters();
  const Tensor weight = parameters[name + ".map.weight"];
  const Tensor* bias = parameters.find(name + ".map.bias");
  Tensor out =
      at::zeros({source.size(0), weight.size(0) / channels, source.size(1), channels}, at::kDouble);
  auto to = out.accessor<double, 4>();
  each_pair(out, [&](Index b, Index h, Index t, Index c) {
    const Index output = h * channels + c;
    to[b][h][t][c] = dot(row(source, {b, t}), row(weight, {output})) +
                     (bias == nullptr ? 0 : number_at(*bias, output));
  });
  return out;
}

/// Expects derivatives of the output, and their derivatives, to be those of central differences: by
/// the fields given and by all parameters.
inline void expect_gradients_right(Attention& attention, const AttentionInput& in,
                                   const std::vector<Tensor AttentionInput::*>& fields) {
  const auto f = [&](const std::vector<Tensor>& x) {
    AttentionInput changed = in;
    for (std::size_t n = 0; n < fields.size(); ++n) changed.*fields[n] = x[n];
    return attended(attention, changed);
  };
  std::vector<Tensor> inputs;
  for (const auto field : fields) inputs.push_back((in.*field).contiguous());
  EXPECT_LT(gradient_error(f, inputs), 1e-7);
  EXPECT_LT(second_gradient_error(f, inputs), 1e-6);
  const std::vector<Tensor> parameters = attention.parameters();
  if (parameters.empty()) return;
  EXPECT_LT(leaf_gradient_error([&] { return attended(attention, in); }, parameters), 1e-7);
}

/// Expects tokens between others that are padding to be as absent. @param in  B 1, six tokens
inline void expect_padding_between_is_absence(Attention& attention, const AttentionInput& in) {
  const Tensor real = at::tensor({1, 2, 4}, at::kLong);
  AttentionInput padded = in, absent = in;
  padded.visible.key_valid = at::zeros({1, 6}, at::kBool).index_fill(1, real, true);
  padded.visible.query_valid = padded.visible.key_valid;
  for (Tensor AttentionInput::*x :
       {&AttentionInput::queries, &AttentionInput::keys, &AttentionInput::values}) {
    absent.*x = (in.*x).index_select(2, real);
  }
  for (Tensor AttentionInput::*x : {&AttentionInput::query_source, &AttentionInput::key_source,
                                    &AttentionInput::value_source}) {
    if ((in.*x).defined()) absent.*x = (in.*x).index_select(1, real);
  }
  EXPECT_LT(largest_difference(attended(attention, padded).index_select(2, real),
                               attended(attention, absent)),
            1e-12);
}

}  // namespace attnlab::testing
