// Elliptical attention's M by its definition: loops over tokens in double precision.
#pragma once

#include <algorithm>
#include <vector>

#include "tests/support/naive_attention.h"

namespace attnlab::testing {

struct NaiveMetric {
  bool median = false;  ///< the lower of two middle ones
  bool leak = false;    ///< over all tokens but padding, whoever sees them
};

inline double naive_average(std::vector<double> numbers, bool median) {
  if (numbers.empty()) return 0;
  if (median) {
    std::sort(numbers.begin(), numbers.end());
    return numbers[(numbers.size() - 1) / 2];
  }
  double sum = 0;
  for (const double x : numbers) sum += x;
  return sum / static_cast<double>(numbers.size());
}

/// @param before  the previous layer's values, [B, H, Lk, D]
/// @returns [B, H, Lq, D] float64.
inline Tensor naive_metric(const AttentionInput& in, const Tensor& before, NaiveMetric how = {}) {
  const std::int64_t dim = in.values.size(3);
  Tensor metric = at::ones({in.batch(), in.heads(), in.query_count(), dim}, at::kDouble);
  const auto now = in.values.accessor<double, 4>(), then = before.accessor<double, 4>();
  const Tensor& valid = in.visible.key_valid;
  for (std::int64_t b = 0; b < in.batch(); ++b) {
    for (std::int64_t h = 0; h < in.heads(); ++h) {
      for (std::int64_t i = 0; i < in.query_count(); ++i) {
        std::vector<std::vector<double>> changes(dim);
        for (std::int64_t j = 0; j < in.key_count(); ++j) {
          const bool real = !valid.defined() || valid[b][j].item<bool>();
          if (how.leak ? !real : !sees(in, b, h, i, j)) continue;
          for (std::int64_t c = 0; c < dim; ++c) {
            changes[c].push_back(std::abs(now[b][h][j][c] - then[b][h][j][c]));
          }
        }
        std::vector<double> r;
        for (const auto& of_channel : changes) r.push_back(naive_average(of_channel, how.median));
        const double largest = *std::max_element(r.begin(), r.end());
        if (largest == 0) continue;
        for (std::int64_t c = 0; c < dim; ++c) metric[b][h][i][c] = r[c] / largest;
      }
    }
  }
  return metric;
}

/// The inputs of `one_input_for_each_rule` with values as wide as queries and keys, with rules of
/// fewer dimensions and of padding queries besides.
inline std::vector<NamedInput> one_square_input_for_each_rule() {
  std::vector<NamedInput> all = one_input_for_each_rule();
  const auto add = [&](const char* name, const auto& change) {
    AttentionInput in = random_input(2, 2, 4, 5, 4, 3);
    change(in);
    all.push_back({name, in});
  };
  add("keys hidden from all queries", [](AttentionInput& in) {
    in.visible.pairs = at::tensor({1, 0, 1, 1, 0}).to(at::kBool).view({1, 1, 1, 5});
  });
  add("queries that see nothing", [](AttentionInput& in) {
    in.visible.pairs = at::tensor({1, 0, 1, 1}).to(at::kBool).view({4, 1});
  });
  add("pairs for each example", [](AttentionInput& in) {
    in.visible.pairs = at::rand({2, 1, 4, 5}) < 0.6;
  });
  add("pairs for each head", [](AttentionInput& in) {
    in.visible.pairs = at::rand({2, 4, 5}) < 0.6;
  });
  add("padding queries", [](AttentionInput& in) {
    in.visible.query_valid = at::ones({2, 4}, at::kBool);
    in.visible.query_valid[1][3].fill_(false);
  });
  for (NamedInput& one : all) one.input.values = at::randn_like(one.input.keys);
  return all;
}

}  // namespace attnlab::testing
