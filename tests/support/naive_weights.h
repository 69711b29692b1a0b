// Attention in pieces, by plain loops in double precision: logits, who sees whom, Sinkhorn's
// half-steps, and the sum of values.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "framework/nn/attention/normalisers.h"
#include "tests/support/naive_attention.h"

namespace attnlab::testing {

using Index = std::int64_t;

/// Calls visit(b, h, i, j) for every pair.
inline void each_pair(const Tensor& x,
                      const std::function<void(Index, Index, Index, Index)>& visit) {
  for (std::int64_t b = 0; b < x.size(0); ++b) {
    for (std::int64_t h = 0; h < x.size(1); ++h) {
      for (std::int64_t i = 0; i < x.size(2); ++i) {
        for (std::int64_t j = 0; j < x.size(3); ++j) visit(b, h, i, j);
      }
    }
  }
}

/// Those inputs of `one_input_for_each_rule` that traits cover, and those that they do not.
struct RulesByTraits {
  std::vector<NamedInput> covered, beyond;
};

inline RulesByTraits rules_by(const AttentionTraits& has) {
  RulesByTraits rules;
  for (const NamedInput& one : one_input_for_each_rule()) {
    const AttentionInput& in = one.input;
    const bool covered =
        (has.bias || !in.bias.defined()) && (has.relative_positions || !in.relative.defined()) &&
        (has.causal || !in.visible.causal) && (has.window || in.visible.window == 0) &&
        (has.pair_mask || !in.visible.pairs.defined());
    (covered ? rules.covered : rules.beyond).push_back(one);
  }
  return rules;
}

/// @returns [B, H, Lq, Lk] float64, hidden pairs too.
inline Tensor naive_logits(const AttentionInput& in, const NaiveSettings& settings) {
  Tensor all = at::zeros({in.batch(), in.heads(), in.query_count(), in.key_count()}, at::kDouble);
  auto to = all.accessor<double, 4>();
  each_pair(all, [&](Index b, Index h, Index i, Index j) {
    to[b][h][i][j] = naive_logit(in, settings, b, h, i, j);
  });
  return all;
}

/// @returns [B, H, Lq, Lk] bool, padding queries seeing nothing.
inline Tensor naive_visible(const AttentionInput& in) {
  Tensor all = at::zeros({in.batch(), in.heads(), in.query_count(), in.key_count()}, at::kBool);
  const Tensor& asking = in.visible.query_valid;
  auto to = all.accessor<bool, 4>();
  each_pair(all, [&](Index b, Index h, Index i, Index j) {
    to[b][h][i][j] = sees(in, b, h, i, j) && (!asking.defined() || asking[b][i].item<bool>());
  });
  return all;
}

/// Visible keys of each query. @param visible  [B, H, Lq, Lk] bool.
inline double naive_count(const Tensor& visible, std::int64_t b, std::int64_t h, std::int64_t i) {
  const auto sees = visible.accessor<bool, 4>();
  double count = 0;
  for (std::int64_t j = 0; j < visible.size(3); ++j) count += sees[b][h][i][j];
  return count;
}

/// sum_j w_ij v_j. @param weights  [B, H, Lq, Lk] float64.
inline Tensor weighed(const Tensor& weights, const Tensor& values) {
  Tensor out =
      at::zeros({weights.size(0), weights.size(1), weights.size(2), values.size(3)}, at::kDouble);
  auto to = out.accessor<double, 4>();
  const auto w = weights.accessor<double, 4>(), v = values.accessor<double, 4>();
  each_pair(weights, [&](Index b, Index h, Index i, Index j) {
    for (std::int64_t c = 0; c < values.size(3); ++c)
      to[b][h][i][c] += w[b][h][i][j] * v[b][h][j][c];
  });
  return out;
}

inline double log_sum_exp(const Row& x) {
  double top = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const double v : x) top = std::max(top, v);
  for (const double v : x) sum += std::exp(v - top);
  return top + std::log(sum);
}

/// One head of Sinkhorn's iteration, as the public code has it.
struct NaiveSinkhornHead {
  const double* logits;
  const bool* visible;
  std::int64_t rows, columns;
  double eps;
  Row u = Row(rows, 0.0), v = Row(columns, 0.0);

  double exponent(std::int64_t i, std::int64_t j) const {
    return (logits[i * columns + j] + u[i] + v[j]) / eps;
  }
  /// The exponents that row i (or column i) sees.
  Row seen_by(std::int64_t i, bool row) const {
    Row seen;
    for (std::int64_t j = 0; j < (row ? columns : rows); ++j) {
      if (visible[row ? i * columns + j : j * columns + i]) {
        seen.push_back(row ? exponent(i, j) : exponent(j, i));
      }
    }
    return seen;
  }
  double taking_part(bool row) const {
    double count = 0;
    for (std::int64_t i = 0; i < (row ? rows : columns); ++i) count += !seen_by(i, row).empty();
    return count;
  }
  /// @returns the sum of what the potentials moved.
  double half_step(bool row) {
    const double log_goal = -std::log(taking_part(row));
    double moved = 0;
    for (std::int64_t i = 0; i < (row ? rows : columns); ++i) {
      const Row seen = seen_by(i, row);
      if (seen.empty()) continue;
      const double move = eps * (log_goal - log_sum_exp(seen));
      (row ? u : v)[i] += move;
      moved += std::abs(move);
    }
    return moved;
  }
};

/// @param logits   [B, H, Lq, Lk] float64 contiguous
/// @param visible  [B, H, Lq, Lk] bool contiguous
inline Tensor naive_sinkhorn(const Tensor& logits, const Tensor& visible,
                             const SinkhornOptions& options) {
  const std::int64_t size = logits.size(2) * logits.size(3);
  std::vector<NaiveSinkhornHead> heads;
  for (std::int64_t n = 0; n < logits.size(0) * logits.size(1); ++n) {
    heads.push_back({logits.data_ptr<double>() + n * size, visible.data_ptr<bool>() + n * size,
                     logits.size(2), logits.size(3), options.eps});
  }
  for (std::int64_t t = 0; t < options.max_iter; ++t) {
    double moved = 0;
    for (NaiveSinkhornHead& head : heads) moved += head.half_step(t % 2 == 0);
    if (t % 2 == 0 && moved / static_cast<double>(heads.size()) < options.tolerance) break;
  }
  Tensor plan = at::zeros_like(logits);
  for (std::size_t n = 0; n < heads.size(); ++n) {
    const NaiveSinkhornHead& head = heads[n];
    const double total = options.total == "one" ? head.taking_part(true) : 1;
    for (std::int64_t i = 0; i < size; ++i) {
      const double p = total * std::exp(head.exponent(i / head.columns, i % head.columns));
      plan.data_ptr<double>()[static_cast<std::int64_t>(n) * size + i] = head.visible[i] ? p : 0;
    }
  }
  return plan;
}

}  // namespace attnlab::testing
