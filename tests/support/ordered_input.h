// Attentions that read a sequence in its order, token by token in double precision: inputs with the
// causal rule and sources, the recurrences by their definition, maps of sources by plain loops.
#pragma once

#include <gtest/gtest.h>

#include <c10/core/GradMode.h>

#include <cmath>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "framework/nn/attention/recurrence.h"
#include "tests/support/attended.h"
#include "tests/support/gradcheck.h"
#include "tests/support/naive_weights.h"
#include "tests/support/plugins.h"

namespace attnlab::testing {

inline constexpr std::int64_t kQueryWidth = 5, kKeyWidth = 6, kValueWidth = 7;

/// Random queries, keys and values of two heads with the causal rule, and sources of them; float64.
inline AttentionInput ordered_input(std::int64_t batch, std::int64_t queries, std::int64_t keys,
                                    std::int64_t dim = 4, std::int64_t value_dim = 3) {
  AttentionInput in = random_input(batch, 2, queries, keys, dim, value_dim);
  in.visible.causal = true;
  in.query_source = at::randn({batch, queries, kQueryWidth}, at::kDouble);
  in.key_source = at::randn({batch, keys, kKeyWidth}, at::kDouble);
  in.value_source = at::randn({batch, keys, kValueWidth}, at::kDouble);
  return in;
}

/// Lengths around those of chunks, fewer and more queries than keys, absent keys.
inline std::vector<NamedInput> ordered_inputs() {
  std::vector<NamedInput> all;
  const auto add = [&](const char* name, std::int64_t queries, std::int64_t keys, bool padded) {
    AttentionInput in = ordered_input(2, queries, keys);
    if (padded) in.visible.key_valid = at::rand({2, keys}) < 0.6;
    all.push_back({name, in});
  };
  add("one token", 1, 1, false);
  add("few tokens", 5, 5, false);
  add("few tokens, some absent", 6, 6, true);
  add("more than a chunk, some absent", 67, 67, true);
  add("fewer queries", 3, 7, false);
  add("one query, some keys absent", 1, 70, true);
  add("more queries", 7, 4, false);
  return all;
}

/// One of the attentions in float64 and evaluation mode, every parameter off its start.
class OrderedSubject {
 public:
  OrderedSubject(const std::string& id, const AttentionInput& in,
                 const std::string& options = "{}") {
    AttentionShape shape = shape_of(in);
    shape.query_width = kQueryWidth, shape.key_width = kKeyWidth, shape.value_width = kValueWidth;
    attention_ = make_attention(id, shape, options);
    attention_->to(at::kDouble);
    attention_->eval();
    const at::NoGradGuard no_gradients;
    for (Tensor& p : attention_->parameters()) p.add_(at::randn_like(p), 0.5);
  }

  Tensor operator()(const AttentionInput& in) const { return attended(*attention_, in); }
  /// By its name, "gate.map.weight". @throws std::invalid_argument where there is none.
  Tensor parameter(const std::string& name) const {
    for (const auto& item : attention_->named_parameters()) {
      if (item.key() == name) return item.value().detach();
    }
    throw std::invalid_argument("there is no parameter " + name);
  }
  Attention& attention() const { return *attention_; }

 private:
  std::shared_ptr<Attention> attention_;
};

/// W x + b, a token at a time. @param bias  undefined: none. @returns [B, L, rows of W].
inline Tensor naive_linear(const Tensor& source, const Tensor& weight, const Tensor& bias = {}) {
  const std::int64_t batch = source.size(0), length = source.size(1), out = weight.size(0);
  Tensor y = at::zeros({batch, length, out}, at::kDouble);
  auto to = y.accessor<double, 3>();
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t t = 0; t < length; ++t) {
      const Row x = row(source, {b, t});
      for (std::int64_t c = 0; c < out; ++c) {
        to[b][t][c] = dot(row(weight, {c}), x) + (bias.defined() ? number_at(bias, c) : 0);
      }
    }
  }
  return y;
}

/// Channels [B, L, H n], head after head, as [B, H, L, n].
inline Tensor naive_heads(const Tensor& y, std::int64_t heads) {
  const std::int64_t n = y.size(2) / heads;
  Tensor split = at::zeros({y.size(0), heads, y.size(1), n}, at::kDouble);
  auto to = split.accessor<double, 4>();
  const auto from = y.accessor<double, 3>();
  each_pair(split,
            [&](Index b, Index h, Index t, Index c) { to[b][h][t][c] = from[b][t][h * n + c]; });
  return split;
}

/// f of each number. @param f  of a number of head h in channel c.
inline Tensor each_number(const Tensor& x,
                          const std::function<double(double, Index h, Index c)>& f) {
  Tensor y = at::zeros(x.sizes(), at::kDouble);
  auto to = y.accessor<double, 4>();
  const auto from = x.accessor<double, 4>();
  each_pair(
      x, [&](Index b, Index h, Index t, Index c) { to[b][h][t][c] = f(from[b][h][t][c], h, c); });
  return y;
}

inline double naive_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double naive_silu(double x) { return x * naive_sigmoid(x); }
inline double naive_softplus(double x) { return std::log1p(std::exp(x)); }
inline Tensor naive_silu(const Tensor& x) {
  return each_number(x, [](double v, Index, Index) { return naive_silu(v); });
}
inline Tensor naive_sigmoid(const Tensor& x) {
  return each_number(x, [](double v, Index, Index) { return naive_sigmoid(v); });
}

/// f of each row. @param x  [B, H, L, n].
inline Tensor each_row(const Tensor& x, const std::function<Row(Row)>& f) {
  Tensor y = at::zeros(x.sizes(), at::kDouble);
  auto to = y.accessor<double, 4>();
  each_pair(x.narrow(3, 0, 1), [&](Index b, Index h, Index t, Index) {
    const Row mapped = f(row(x, {b, h, t}));
    for (std::size_t c = 0; c < mapped.size(); ++c) to[b][h][t][Index(c)] = mapped[c];
  });
  return y;
}

/// SiLU, then over √(|x|² + 1e-6).
inline Tensor naive_direction(const Tensor& x) {
  return each_row(naive_silu(x), [](Row r) {
    const double norm = std::sqrt(dot(r, r) + 1e-6);
    for (double& c : r) c /= norm;
    return r;
  });
}

/// x / √(mean x² + 1e-5) ⊙ factors, of a head's channels.
inline Tensor naive_rms_norm(const Tensor& x, const Tensor& factors) {
  const Row g = row(factors);
  return each_row(x, [&](Row r) {
    const double root = std::sqrt(dot(r, r) / double(r.size()) + 1e-5);
    for (std::size_t c = 0; c < r.size(); ++c) r[c] *= g[c] / root;
    return r;
  });
}

/// (x - mean) / √(variance + 1e-5), of a head's channels.
inline Tensor naive_layer_norm(const Tensor& x) {
  return each_row(x, [](Row r) {
    double mean = 0;
    for (const double c : r) mean += c / double(r.size());
    for (double& c : r) c -= mean;
    const double root = std::sqrt(dot(r, r) / double(r.size()) + 1e-5);
    for (double& c : r) c /= root;
    return r;
  });
}

/// The recurrences by their definition, a token after the other.
/// @param betas  undefined: the linear recurrence; else the delta rule.
/// @returns [B, H, Lq, Dv] float64.
inline Tensor naive_recurrence(const Recurrence& r, const Tensor& betas = {}) {
  const std::int64_t rows = r.queries.size(2), columns = r.keys.size(2);
  Tensor out =
      at::zeros({r.queries.size(0), r.queries.size(1), rows, r.values.size(3)}, at::kDouble);
  auto to = out.accessor<double, 4>();
  for (std::int64_t b = 0; b < r.queries.size(0); ++b) {
    for (std::int64_t h = 0; h < r.queries.size(1); ++h) {
      std::vector<Row> state(std::size_t(r.keys.size(3)), Row(std::size_t(r.values.size(3))));
      const auto read_by = [&](const Row& x) {
        Row y(state[0].size());
        for (std::size_t c = 0; c < x.size(); ++c) {
          for (std::size_t n = 0; n < y.size(); ++n) y[n] += state[c][n] * x[c];
        }
        return y;
      };
      for (std::int64_t t = 0; t < columns; ++t) {
        if (!r.key_valid.defined() || r.key_valid[b][t].item<bool>()) {
          const Row key = row(r.keys, {b, h, t});
          if (r.log_decays.defined()) {
            const Row logs = row(r.log_decays, {b, h, t});
            for (std::size_t c = 0; c < key.size(); ++c) {
              for (double& s : state[c]) s *= std::exp(logs[logs.size() == 1 ? 0 : c]);
            }
          }
          Row write = row(r.values, {b, h, t});
          if (betas.defined()) {
            const Row read = read_by(key);
            const double beta = row(betas, {b, h, t})[0];
            for (std::size_t n = 0; n < write.size(); ++n) write[n] = beta * (write[n] - read[n]);
          }
          for (std::size_t c = 0; c < key.size(); ++c) {
            for (std::size_t n = 0; n < write.size(); ++n) state[c][n] += key[c] * write[n];
          }
        }
        const std::int64_t i = t - (columns - rows);
        if (i < 0) continue;
        const Row y = read_by(row(r.queries, {b, h, i}));
        for (std::size_t n = 0; n < y.size(); ++n) to[b][h][i][Index(n)] = y[n];
      }
    }
  }
  return out;
}

/// One of them gives what its equation gives, for all of `ordered_inputs`.
inline void expect_equals_equation(
    const std::string& id,
    const std::function<Tensor(const OrderedSubject&, const AttentionInput&)>& naive) {
  for (const auto& [name, in] : ordered_inputs()) {
    const OrderedSubject subject(id, in);
    EXPECT_LT(largest_difference(subject(in).detach(), naive(subject, in)), 1e-9) << name;
  }
}

/// Gradients of everything that it reads, and of its parameters, are right twice.
inline void expect_right_gradients(const std::string& id) {
  const AttentionInput in = ordered_input(1, 3, 3, 3, 4);
  const OrderedSubject subject(id, in);
  const auto f = [&](const std::vector<Tensor>& x) {
    AttentionInput changed = in;
    changed.queries = x[0], changed.keys = x[1], changed.values = x[2];
    changed.query_source = x[3], changed.key_source = x[4];
    // Not every mechanism reads both sources.
    return subject(changed) + (x[3].square().sum() + x[4].square().sum()) * 0;
  };
  const std::vector<Tensor> read = {in.queries, in.keys, in.values, in.query_source, in.key_source};
  // Norms of small numbers bend much: a short step.
  EXPECT_LT(
      leaf_gradient_error([&] { return subject(in); }, subject.attention().parameters(), 1e-6),
      1e-6);
  EXPECT_LT(gradient_error(f, read, 1e-6), 1e-6);
  EXPECT_LT(second_gradient_error(f, read, 1e-6), 1e-5);
}

}  // namespace attnlab::testing
