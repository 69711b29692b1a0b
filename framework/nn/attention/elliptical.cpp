// The metric of Elliptical attention: see the header.
#include "framework/nn/attention/elliptical.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "framework/nn/attention/dot_product_attention.h"
#include "framework/tensor/narrow.h"

namespace attnlab {

/// The values of the layer before, detached, under the context's ForwardState. One layer's at a
/// time, and they share memory with the values themselves.
struct EllipticalState {
  static constexpr std::int64_t kNone = -1;
  std::int64_t layer = kNone;
  Tensor values;
  void each(const TensorVisit& visit) { visit(values); }
};

namespace {

/// How many numbers the median works on at once: bounds its memory to some tens of MB.
constexpr std::int64_t kMedianChunk = std::int64_t{1} << 22;

/// Puts this layer's values into the state.
/// @returns the previous layer's; undefined when there is none.
Tensor exchange_values(EllipticalState& state, const Tensor& values, std::int64_t layer,
                       bool keep) {
  if (state.layer != EllipticalState::kNone && layer != state.layer + 1) {
    throw ConfigError(
        fmt::format("elliptical attention: layer {} came after layer {}, but its metric compares "
                    "values of consecutive layers; attention.layers must name layers in a row, and "
                    "the model give each stack, and each forward pass, a ForwardState of its own",
                    layer, state.layer));
  }
  Tensor previous = state.values;
  if (previous.defined() && previous.sizes() != values.sizes()) {
    throw ShapeError(
        fmt::format("elliptical attention: the values of layer {} are {} and those of the layer "
                    "before {}, but its metric compares them token by token; use another "
                    "attention, or a ForwardState of their own for the layers after the change",
                    layer, describe(values), describe(previous)));
  }
  state.layer = layer;
  state.values = keep ? values.detach() : Tensor();
  return previous;
}

/// |now - before|, at least in float32.
Tensor changes_between(const Tensor& now, const Tensor& before) {
  return (wide(now.detach()) - wide(before)).abs_();
}

/// `visible`, broadcastable to [B, H, Lq, Lk], as [B or 1, H or 1, Lq or 1, Lk].
Tensor with_all_keys(Tensor visible, std::int64_t keys) {
  while (visible.dim() < 4) visible = visible.unsqueeze(0);
  return visible.expand({-1, -1, -1, keys});
}

/// The sum of each query's visible tokens. Their number cancels in r / max r.
/// @param visible  [B or 1, H or 1, rows, L]
/// @param changes  [B, H, L, D]
/// @returns [B, H, rows, D].
Tensor visible_sums(const Tensor& visible, const Tensor& changes) {
  const std::int64_t batch = changes.size(0), heads = changes.size(1), tokens = changes.size(2);
  const std::int64_t rows = visible.size(2);
  const Tensor weights = visible.to(changes.scalar_type());
  if (visible.size(1) > 1) return at::matmul(weights, changes);
  // One rule for all heads, or for all examples too: side by side they make one product.
  if (visible.size(0) > 1) {
    const Tensor side_by_side = changes.transpose(1, 2).reshape({batch, tokens, -1});
    return at::bmm(weights.squeeze(1), side_by_side).view({batch, rows, heads, -1}).transpose(1, 2);
  }
  const Tensor side_by_side = changes.permute({2, 0, 1, 3}).reshape({tokens, -1});
  return at::mm(weights[0][0], side_by_side).view({rows, batch, heads, -1}).permute({1, 2, 0, 3});
}

/// The lower median of each query's visible tokens; 0 where it sees none. Parameters as above.
Tensor visible_medians(const Tensor& visible, const Tensor& changes) {
  const std::int64_t batch = changes.size(0), heads = changes.size(1), rows = visible.size(2);
  const std::int64_t tokens = changes.size(2), dim = changes.size(3);
  // Sorted once for all queries: a query's median is where half of what it sees has gone by.
  const auto [sorted, order] = changes.transpose(-2, -1).sort(-1);  // [B, H, D, L]
  const Tensor count = visible.sum(-1).unsqueeze(-1);               // [.., .., rows, 1]
  const std::int64_t chunk =
      std::max<std::int64_t>(1, kMedianChunk / std::max<std::int64_t>(1, changes.numel()));
  std::vector<Tensor> medians;
  for (std::int64_t first = 0; first < rows; first += chunk) {
    const std::int64_t n = std::min(chunk, rows - first);
    const std::int64_t all[] = {batch, heads, n, dim, tokens};
    const Tensor gone_by = visible.narrow(2, first, n)
                               .unsqueeze(3)
                               .expand(all)
                               .gather(-1, order.unsqueeze(2).expand(all))
                               .cumsum(-1, at::kInt);
    const Tensor half = (count.narrow(2, first, n) + 1).bitwise_right_shift(1);  // rounded down
    const Tensor place = gone_by.lt(half.unsqueeze(-1)).sum(-1, true);
    medians.push_back(sorted.unsqueeze(2).expand(all).gather(-1, place).squeeze(-1));
  }
  return at::cat(medians, 2).masked_fill_(count == 0, 0);
}

/// @param changes  [B, H, Lk, D], Lk > 0
/// @param visible  broadcastable to [B, H, Lq, Lk]; undefined: every query sees every key
/// @returns [B, H, Lq or 1, D], the mean up to a factor.
Tensor average_of(const Tensor& changes, const Tensor& visible, bool median) {
  const std::int64_t tokens = changes.size(2);
  if (visible.defined()) {
    const Tensor seen = with_all_keys(visible, tokens);
    return median ? visible_medians(seen, changes) : visible_sums(seen, changes);
  }
  if (!median) return changes.sum(2, /*keepdim=*/true);
  return std::get<0>(changes.kthvalue((tokens - 1) / 2 + 1, 2, /*keepdim=*/true));
}

/// What M averages over: with the leak, who may see whom has no say, but padding stays out.
/// @param side_by_side  padding of an ensemble's members comes as pairs (MultiHeadAttention): a key
///                      that no query sees is padding
Visibility rules_of(const Visibility& visible, bool causal_leak, bool side_by_side) {
  if (!causal_leak) return visible;
  Visibility all;
  all.key_valid = visible.key_valid;
  const Tensor& pairs = visible.pairs;
  if (side_by_side && pairs.defined()) all.pairs = pairs.dim() < 2 ? pairs : pairs.any(-2, true);
  return all;
}

Tensor average_of_sequences(const Tensor& changes, const AttentionInput& input, bool median,
                            bool causal_leak) {
  const std::int64_t heads = changes.size(1), dim = changes.size(3);
  const std::int64_t sequences = input.visible.query_offsets.size(0) - 1;
  std::vector<Tensor> averages;
  std::int64_t first = 0;
  for (std::int64_t t = 0; t < sequences; ++t) {
    const AttentionInput one = sequence_of(input, t);
    const std::int64_t rows = one.query_count(), columns = one.key_count();
    const Tensor part = changes.narrow(2, first, columns);
    first += columns;
    const Tensor visible = visible_pairs(rules_of(one.visible, causal_leak, /*side_by_side=*/false),
                                         rows, columns, changes.device());
    const Tensor average = rows == 0 || columns == 0
                               ? at::zeros({1, heads, 1, dim}, changes.options())
                               : average_of(part, visible, median);
    averages.push_back(average.expand({1, heads, rows, dim}));
  }
  return at::cat(averages, 2);
}

}  // namespace

EllipticalMetric::EllipticalMetric(const EllipticalOptions& options, const AttentionShape& shape)
    : training_median_(options.average == "median"),
      evaluation_median_(options.evaluation_average == "same"
                             ? training_median_
                             : options.evaluation_average == "median"),
      causal_leak_(options.causal_leak),
      side_by_side_(shape.members > 1),
      last_(shape.layers > 1 && shape.layer + 1 == shape.layers) {
  if (shape.values() == shape.head_dim) return;
  throw ConfigError(
      fmt::format("elliptical attention: values have {} channels per head and queries and keys {}, "
                  "but the values' coordinates weigh those of queries and keys; make them as wide "
                  "in the model, or take another attention or metric",
                  shape.values(), shape.head_dim));
}

Tensor EllipticalMetric::operator()(const AttentionInput& input, AttentionContext& context,
                                    bool training) const {
  if (context.state == nullptr) return {};
  const Tensor before = exchange_values(context.state->of<EllipticalState>(), input.values,
                                        context.layer, /*keep=*/!last_);
  const std::int64_t rows = input.query_count(), columns = input.key_count();
  if (!before.defined() || rows == 0 || columns == 0) return {};
  const at::NoGradGuard no_gradients;
  const Tensor changes = changes_between(input.values, before);
  const bool median = training ? training_median_ : evaluation_median_;
  Tensor average;
  if (input.visible.ragged()) {
    average = average_of_sequences(changes, input, median, causal_leak_);
  } else {
    const Visibility rules = rules_of(input.visible, causal_leak_, side_by_side_);
    average = average_of(changes, visible_pairs(rules, rows, columns, changes.device()), median);
  }
  const Tensor largest = average.amax(-1, /*keepdim=*/true);
  return (average / largest).masked_fill_(largest == 0, 1).to(input.queries.scalar_type());
}

}  // namespace attnlab
