// The QK-normalisations: qnorm, qknorm (also with the scales of qknorm_ds), qknorm_hs, qknorm_ln.
// Each one's own test states its equation and instantiates QKNormalisation, the properties of all.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/attended.h"
#include "tests/support/naive_attention.h"
#include "tests/support/plugins.h"

namespace attnlab::testing {

using BuiltAttention = std::shared_ptr<Attention>;

/// One form of a QK-normalisation.
struct NormalisedForm {
  std::string plugin;
  std::string options;  ///< without braces
  /// The paper's formula, with the parameters of the attention.
  NaiveSettings (*equation)(const Attention&);

  /// In double, with the parameters that it starts with.
  BuiltAttention built(const AttentionInput& in, const std::string& more = "") const {
    const std::string both = options + (options.empty() || more.empty() ? "" : ", ") + more;
    const BuiltAttention attention = make_attention(plugin, shape_of(in), "{" + both + "}");
    attention->to(at::kDouble);
    return attention;
  }

  /// As `built`, with parameters that differ from each other.
  BuiltAttention varied(const AttentionInput& in) const {
    const BuiltAttention attention = built(in);
    const at::NoGradGuard no_gradients;
    for (Tensor& parameter : attention->parameters()) parameter.add_(at::rand_like(parameter));
    return attention;
  }
};

inline void PrintTo(const NormalisedForm& form, std::ostream* out) {
  *out << form.plugin << " {" << form.options << "}";
}

inline Tensor attended(const BuiltAttention& attention, const AttentionInput& in,
                       AttentionTrace* trace = nullptr) {
  return attended(*attention, in, trace);
}

inline Tensor logits_of(const BuiltAttention& attention, const AttentionInput& in) {
  AttentionTrace trace;
  trace.logits = true;
  attended(attention, in, &trace);
  return trace.layers[0].logits;
}

/// Queries and keys whose norms lie between 0.1 and 1000 times those of `in`.
inline AttentionInput louder(const AttentionInput& in) {
  AttentionInput out = in;
  const auto factors = [](const Tensor& x) {
    return at::logspace(-1, 3, x.size(2), 10.0, at::kDouble).view({1, 1, -1, 1});
  };
  out.queries = in.queries * factors(in.queries);
  out.keys = in.keys * factors(in.keys);
  return out;
}

/// [B, H, Lq, Lk]: cosines of queries and keys.
inline Tensor cosines(const Tensor& queries, const Tensor& keys) {
  const auto unit = [](const Tensor& x) { return x / x.norm(2, -1, true); };
  return at::matmul(unit(queries), unit(keys).transpose(-2, -1));
}

inline Row on_sphere(const Row& x) { return over_norm(x, 1e-12); }

/// c ⊙ x, c being the part of `factors` that belongs to head h where heads have their own.
inline Row times(Row x, const Row& factors, std::int64_t h) {
  const std::size_t first = factors.size() > x.size() ? std::size_t(h) * x.size() : 0;
  for (std::size_t c = 0; c < x.size(); ++c) x[c] *= factors[first + c];
  return x;
}

/// The numbers of a parameter.
inline Row numbers_of(const Attention& attention, const std::string& parameter) {
  return row(attention.named_parameters()[parameter].detach());
}

using Learned = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

/// Names and sizes of parameters.
inline Learned learned_by(const BuiltAttention& attention) {
  Learned found;
  for (const auto& item : attention->named_parameters()) {
    found.emplace_back(item.key(), item.value().sizes().vec());
  }
  return found;
}

/// Neither norm has a say. (Layer normalisation adds eps to the variance, so that only a small one
/// leaves norms out.)
inline void expect_blind_to_norms(const NormalisedForm& form) {
  at::manual_seed(7);
  const AttentionInput in = random_input(2, 2, 4, 5, 6, 3);
  const BuiltAttention attention = form.built(in, "eps: 1.0e-30");
  EXPECT_LT(largest_difference(attended(attention, in), attended(attention, louder(in))), 1e-12);
}

class QKNormalisation : public ::testing::TestWithParam<NormalisedForm> {};

}  // namespace attnlab::testing
