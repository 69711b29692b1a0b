// Dot-product attention by its definition: loops over numbers in double precision, no kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "framework/contracts/attention.h"

namespace attnlab::testing {

using Row = std::vector<double>;

struct NaiveSettings {
  double scale = 1;
  bool unit_keys = false;  ///< QUEST: keys, and relative positional keys, over their norms
  double eps = 1e-12;
  /// Further maps of one vector of head h: of queries (with their biases), and of keys.
  std::function<Row(const Row&, std::int64_t h)> map_query = {}, map_key = {};
};

/// One number, wherever it lies; tensors of tensors for each would take minutes.
inline double number_at(const Tensor& x, std::int64_t offset) {
  if (x.scalar_type() == at::kDouble) return x.data_ptr<double>()[offset];
  if (x.scalar_type() == at::kFloat) return double(x.data_ptr<float>()[offset]);
  if (x.scalar_type() == at::kBool) return x.data_ptr<bool>()[offset] ? 1 : 0;
  throw std::invalid_argument("naive_attention.h: numbers are float64, float32 or bool");
}

/// Where `x`, broadcastable to the place's sizes and what follows them, has its first number there.
inline std::int64_t offset_of(const Tensor& x, std::initializer_list<std::int64_t> place,
                              std::int64_t dims) {
  const std::int64_t missing = dims - x.dim();
  std::int64_t offset = 0, at = 0;
  for (const std::int64_t p : place) {
    const std::int64_t dim = at++ - missing;
    if (dim >= 0 && x.size(dim) > 1) offset += p * x.stride(dim);
  }
  return offset;
}

/// The number of `x`, broadcastable to [B, H, Lq, Lk], at a pair.
inline double at_pair(const Tensor& x, std::int64_t b, std::int64_t h, std::int64_t i,
                      std::int64_t j) {
  return number_at(x, offset_of(x, {b, h, i, j}, 4));
}

inline bool sees(const AttentionInput& in, std::int64_t b, std::int64_t h, std::int64_t i,
                 std::int64_t j) {
  const Visibility& rule = in.visible;
  const std::int64_t place = i + in.key_count() - in.query_count();
  if (rule.causal && j > place) return false;
  if (rule.window > 0 && std::abs(place - j) >= rule.window) return false;
  if (rule.key_valid.defined() && at_pair(rule.key_valid, 0, 0, b, j) == 0) return false;
  return !rule.pairs.defined() || at_pair(rule.pairs, b, h, i, j) != 0;
}

/// The last dimension of `x` at a place of the others.
inline Row row(const Tensor& x, std::initializer_list<std::int64_t> place) {
  Row all(std::size_t(x.size(-1)));
  const std::int64_t first = offset_of(x, place, x.dim()), step = x.stride(-1);
  for (std::size_t c = 0; c < all.size(); ++c)
    all[c] = number_at(x, first + std::int64_t(c) * step);
  return all;
}
inline Row row(const Tensor& x) { return row(x.reshape({-1}), {}); }

inline double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t c = 0; c < a.size(); ++c) sum += a[c] * b[c];
  return sum;
}

/// x / max(|x|, eps).
inline Row over_norm(Row x, double eps) {
  const double norm = std::max(std::sqrt(dot(x, x)), eps);
  for (double& c : x) c /= norm;
  return x;
}

inline Row mapped_key(Row key, const NaiveSettings& s, std::int64_t h) {
  if (s.unit_keys) key = over_norm(std::move(key), s.eps);
  return s.map_key ? s.map_key(key, h) : key;
}

inline Row plus(Row a, const Tensor& bias, std::int64_t h) {
  if (!bias.defined()) return a;
  const Row b = row(bias, {h});
  for (std::size_t c = 0; c < a.size(); ++c) a[c] += b[c];
  return a;
}

inline double naive_logit(const AttentionInput& in, const NaiveSettings& s, std::int64_t b,
                          std::int64_t h, std::int64_t i, std::int64_t j) {
  const Row query = row(in.queries, {b, h, i});
  const auto asking = [&](const Tensor& bias) {
    const Row biased = plus(query, bias, h);
    return s.map_query ? s.map_query(biased, h) : biased;
  };
  const RelativePositions& r = in.relative;
  double logit = dot(asking(r.content_bias), mapped_key(row(in.keys, {b, h, j}), s, h));
  if (r.defined()) {
    const std::int64_t distance = i + in.key_count() - in.query_count() - j;
    Row key = row(r.keys, {h, in.key_count() - 1 - distance});
    logit += dot(asking(r.position_bias), mapped_key(std::move(key), s, h));
  }
  logit *= s.scale;
  return in.bias.defined() ? logit + at_pair(in.bias, b, h, i, j) : logit;
}

/// @returns [B, H, Lq, Dv] float64.
inline Tensor naive_attention(const AttentionInput& in, const NaiveSettings& settings) {
  const std::int64_t keys = in.key_count(), channels = in.values.size(3);
  Tensor out = at::zeros({in.batch(), in.heads(), in.query_count(), channels}, at::kDouble);
  for (std::int64_t b = 0; b < in.batch(); ++b) {
    for (std::int64_t h = 0; h < in.heads(); ++h) {
      for (std::int64_t i = 0; i < in.query_count(); ++i) {
        Row logits(keys, -std::numeric_limits<double>::infinity());
        for (std::int64_t j = 0; j < keys; ++j) {
          if (sees(in, b, h, i, j)) logits[j] = naive_logit(in, settings, b, h, i, j);
        }
        const double top = *std::max_element(logits.begin(), logits.end());
        if (std::isinf(top)) continue;  // sees nothing: zeros
        double sum = 0;
        for (double& logit : logits) sum += logit = std::exp(logit - top);
        for (std::int64_t j = 0; j < keys; ++j) {
          const Row value = row(in.values, {b, h, j});
          for (std::int64_t c = 0; c < channels; ++c) {
            out.data_ptr<double>()[((b * in.heads() + h) * in.query_count() + i) * channels + c] +=
                logits[j] / sum * value[c];
          }
        }
      }
    }
  }
  return out;
}

/// Random queries, keys and values, float64.
inline AttentionInput random_input(std::int64_t batch, std::int64_t heads, std::int64_t queries,
                                   std::int64_t keys, std::int64_t dim, std::int64_t value_dim) {
  AttentionInput in;
  in.queries = at::randn({batch, heads, queries, dim}, at::kDouble);
  in.keys = at::randn({batch, heads, keys, dim}, at::kDouble);
  in.values = at::randn({batch, heads, keys, value_dim}, at::kDouble);
  return in;
}

/// The shape of an attention for such an input, one of `layers` in a model.
inline AttentionShape shape_of(const AttentionInput& in, std::int64_t layer = 0,
                               std::int64_t layers = 1) {
  return {.heads = in.heads(),
          .head_dim = in.queries.size(3),
          .value_dim = in.values.size(3),
          .layer = layer,
          .layers = layers};
}

/// |found - expected| over |expected|, of whole tensors; where expected numbers are small, over
/// what it would be of numbers of 0.5.
inline double relative_error(const Tensor& found, const Tensor& expected) {
  const Tensor of = expected.detach().to(at::kDouble);
  const double size =
      std::max(of.norm().item<double>(), 0.5 * std::sqrt(static_cast<double>(of.numel())));
  return (found.detach().to(at::kDouble) - of).norm().item<double>() / size;
}

/// What results of attention may be off by where factors of products have 8 bits: large logits are
/// off by some hundredths.
inline constexpr double kRoundedAttention = 0.04;

inline double largest_difference(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  return a.numel() == 0 ? 0.0 : (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

/// One input for each rule of the contract, with a name for messages.
struct NamedInput {
  const char* name;
  AttentionInput input;
};

/// Inputs that use each feature alone and several together: B 2, H 2, mostly Lq 4, Lk 5, D 4, Dv 3.
inline std::vector<NamedInput> one_input_for_each_rule() {
  std::vector<NamedInput> all;
  const auto add = [&](const char* name, const auto& change, std::int64_t queries = 4,
                       std::int64_t keys = 5) {
    AttentionInput in = random_input(2, 2, queries, keys, 4, 3);
    change(in);
    all.push_back({name, in});
  };
  const auto valid = [](const AttentionInput& in) {
    Tensor mask = at::ones({2, in.key_count()}, at::kBool);
    mask[0].narrow(0, in.key_count() - 2, 2).fill_(false);
    mask[1].fill_(false);  // the second example sees nothing at all
    return mask;
  };
  const auto relative = [](AttentionInput& in) {
    in.relative.keys = at::randn({2, in.query_count() + in.key_count() - 1, 4}, at::kDouble);
    in.relative.content_bias = at::randn({2, 4}, at::kDouble);
    in.relative.position_bias = at::randn({2, 4}, at::kDouble);
  };
  add("nothing", [](AttentionInput&) {});
  add(
      "one query", [](AttentionInput&) {}, 1, 5);
  add(
      "one key", [](AttentionInput&) {}, 4, 1);
  add("causal", [](AttentionInput& in) { in.visible.causal = true; });
  add(
      "causal square", [](AttentionInput& in) { in.visible.causal = true; }, 5, 5);
  add(
      "causal, first queries see nothing", [](AttentionInput& in) { in.visible.causal = true; }, 6,
      4);
  add("window", [](AttentionInput& in) { in.visible.window = 2; });
  add(
      "window of one", [](AttentionInput& in) { in.visible.window = 1; }, 5, 5);
  add("window wider than all", [](AttentionInput& in) { in.visible.window = 40; });
  add(
      "causal window",
      [](AttentionInput& in) {
        in.visible.causal = true;
        in.visible.window = 3;
      },
      5, 5);
  add("padding", [&](AttentionInput& in) { in.visible.key_valid = valid(in); });
  add("pairs", [](AttentionInput& in) {
    in.visible.pairs = at::rand({2, 2, in.query_count(), in.key_count()}) < 0.5;
  });
  add("pairs for all heads", [](AttentionInput& in) {
    in.visible.pairs = at::rand({in.query_count(), in.key_count()}) < 0.5;
  });
  add("everything visible", [&](AttentionInput& in) {
    in.visible.causal = true;
    in.visible.window = 4;
    in.visible.key_valid = valid(in);
    in.visible.pairs = at::rand({2, 1, in.query_count(), in.key_count()}) < 0.7;
  });
  add("bias", [](AttentionInput& in) {
    in.bias = at::randn({2, in.query_count(), in.key_count()}, at::kDouble);
  });
  add("relative", relative);
  add("relative square", relative, 5, 5);
  add("relative, one query", relative, 1, 5);
  add("relative, one key", relative, 4, 1);
  add("relative keys alone", [&](AttentionInput& in) {
    relative(in);
    in.relative.content_bias = in.relative.position_bias = Tensor();
  });
  add("relative, causal, biased", [&](AttentionInput& in) {
    relative(in);
    in.visible.causal = true;
    in.bias = at::randn({2, 1, 1, in.key_count()}, at::kDouble);
  });
  return all;
}

}  // namespace attnlab::testing
