// Dot-product attention: see the header. attention_kernel.h chooses the kernel.
#include "framework/nn/attention/dot_product_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/nn/attention/attention_kernel.h"
#include "framework/nn/kernels/dropout.h"
#include "framework/nn/kernels/precision.h"
#include "framework/nn/kernels/relative_shift.h"

namespace attnlab {
namespace {

/// The lowest finite number of a dtype: hides a pair, yet a row of them still has a softmax.
double lowest(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return std::numeric_limits<double>::lowest();
    case at::kHalf:
      return std::numeric_limits<at::Half>::lowest();
    case at::kBFloat16:
      return std::numeric_limits<at::BFloat16>::lowest();
    default:
      return std::numeric_limits<float>::lowest();
  }
}

/// @param logits  written over where pairs are hidden.
Tensor masked_softmax(Tensor logits, const Tensor& visible, bool may_be_empty) {
  if (!visible.defined()) return logits.softmax(-1);
  const Tensor hidden = visible.logical_not();
  const Tensor weights = logits.masked_fill_(hidden, lowest(logits.scalar_type())).softmax(-1);
  return may_be_empty ? weights.masked_fill(hidden, 0) : weights;
}

/// @param own_bias  what the mechanism's terms add; undefined: nothing, or not asked for
void record(const AttentionInput& input, AttentionContext& context, const Tensor& logits,
            const Tensor& visible, const Tensor& weights, const Tensor& own_bias) {
  const AttentionTrace& asked = *context.trace;
  const at::AutoGradMode gradients(asked.attached && at::GradMode::is_enabled());
  const auto kept = [&](const Tensor& x) { return asked.attached ? x : x.detach(); };
  LayerTrace layer;
  layer.layer = context.layer;
  if (asked.weights) layer.weights = kept(weights);
  if (asked.entropy) {
    const Tensor sizes = weights.abs();  // some mechanisms subtract values
    layer.entropy = -at::xlogy(sizes, sizes).sum(-1);
  }
  if (asked.logits) {
    layer.logits = kept(logits);
    if (visible.defined()) {
      layer.logits = layer.logits.masked_fill(visible.logical_not(), -INFINITY);
    }
  }
  if (own_bias.defined()) {
    layer.bias = kept(own_bias).expand({-1, input.heads(), input.query_count(), input.key_count()});
  }
  if (asked.norms) {
    layer.query_norms = kept(input.queries).norm(2, -1);
    layer.key_norms = kept(input.keys).norm(2, -1);
  }
  context.trace->take(std::move(layer));
}

/// Why weights are needed one by one, whatever the kernel; null when they are not.
const char* weights_needed_by(const SoftmaxCall& call, const AttentionContext& context,
                              Normaliser normaliser) {
  if (context.trace != nullptr) return "a trace is recorded";
  if (normaliser != Normaliser::custom) return nullptr;
  if (call.input.bias.defined() || call.input.distance_bias.defined()) {
    return "the logits have a bias";
  }
  if (call.input.relative.defined()) return "positions are relative";
  return call.plain() ? nullptr : "the logits have terms of their own";
}

/// The slice [begin, begin + length) of a dimension (from the end, -1 the last), or all of one that
/// broadcasts.
Tensor part(const Tensor& x, std::int64_t dim, std::int64_t begin, std::int64_t length) {
  if (!x.defined() || x.dim() < -dim || x.size(dim) == 1) return x;
  return x.narrow(dim, begin, length);
}

/// `visible`, and padding queries see nothing.
Tensor without_padding_queries(const Tensor& visible, const Tensor& query_valid) {
  if (!query_valid.defined()) return visible;
  const Tensor rows = query_valid.unsqueeze(1).unsqueeze(-1);
  return visible.defined() ? visible.logical_and(rows) : rows;
}

/// The sequences of a ragged batch.
class Sequences {
 public:
  explicit Sequences(const Tensor& offsets)
      : offsets_(offsets.data_ptr<std::int64_t>(),
                 offsets.data_ptr<std::int64_t>() + offsets.size(0)) {}

  std::int64_t count() const { return static_cast<std::int64_t>(offsets_.size()) - 1; }
  std::int64_t begin(std::int64_t t) const { return offsets_[static_cast<std::size_t>(t)]; }

  /// [1, H, L, C] as one [1, H, l, C] for each. Tokens lie outermost meanwhile, as they do in
  /// memory, so that gradients are put together by plain copies.
  std::vector<Tensor> split(const Tensor& x) const {
    std::vector<std::int64_t> lengths;
    for (std::int64_t t = 0; t < count(); ++t) lengths.push_back(begin(t + 1) - begin(t));
    std::vector<Tensor> parts = x.transpose(1, 2).split_with_sizes(lengths, 1);
    for (Tensor& one : parts) one = one.transpose(1, 2);
    return parts;
  }

 private:
  std::vector<std::int64_t> offsets_;
};

/// The input of one sequence of a ragged batch: queries [q, q + rows), keys [k, k + columns).
AttentionInput segment(const AttentionInput& all, std::int64_t q, std::int64_t rows, std::int64_t k,
                       std::int64_t columns) {
  AttentionInput one = all;
  one.queries = all.queries.narrow(2, q, rows);
  one.keys = all.keys.narrow(2, k, columns);
  one.values = all.values.narrow(2, k, columns);
  one.visible.query_offsets = one.visible.key_offsets = Tensor();
  one.visible.key_valid = part(all.visible.key_valid, -1, k, columns);
  one.visible.query_valid = part(all.visible.query_valid, -1, q, rows);
  one.visible.pairs = part(part(all.visible.pairs, -2, q, rows), -1, k, columns);
  one.bias = part(part(all.bias, -2, q, rows), -1, k, columns);
  one.query_positions = part(all.query_positions, -2, q, rows);
  one.key_positions = part(all.key_positions, -2, k, columns);
  if (all.query_source.defined()) {
    one.query_source = all.query_source.narrow(1, q, rows);
    one.key_source = all.key_source.narrow(1, k, columns);
    one.value_source = all.value_source.narrow(1, k, columns);
  }
  if (all.relative.defined() && rows > 0 && columns > 0) {
    // Distances columns - 1 down to 1 - rows; column c of all is distance Lk - 1 - c.
    one.relative.keys = all.relative.keys.narrow(1, all.key_count() - columns, rows + columns - 1);
  }
  return one;
}

}  // namespace

DotProductAttention::DotProductAttention(const AttentionShape& shape,
                                         const DotProductSettings& settings,
                                         const AttentionTraits& traits)
    : Attention(shape, traits),
      scale_(settings.scale.value_or(1 / std::sqrt(static_cast<double>(shape.head_dim)))),
      normaliser_(settings.normaliser),
      unit_keys_(settings.unit_keys),
      has_terms_(settings.terms) {}

Tensor DotProductAttention::normalise(const Tensor& logits, const Tensor& visible,
                                      AttentionContext&) const {
  return masked_softmax(visible.defined() ? logits.clone() : logits, visible, true);
}

Tensor DotProductAttention::attend(const AttentionInput& input, AttentionContext& context) {
  const Tensor diagonal = metric(input, context);
  return input.visible.ragged() ? attend_ragged(input, diagonal, context)
                                : attend_dense(input, diagonal, context);
}

bool DotProductAttention::wants_weights(const SoftmaxCall& call,
                                        const AttentionContext& context) const {
  const AttentionKernel wanted = attention_kernel();
  if (wanted == AttentionKernel::explicit_form) return true;
  const char* obstacle = weights_needed_by(call, context, normaliser_);
  if (obstacle == nullptr && call.dropout > 0 &&
      (normaliser_ == Normaliser::custom || !softmax_kernel_drops(call.input, call.plain()))) {
    obstacle = "weights are dropped out";
  }
  if (obstacle != nullptr && wanted != AttentionKernel::automatic) refuse_kernel(wanted, obstacle);
  return obstacle != nullptr;
}

Tensor DotProductAttention::attend_by_softmax_kernel(const SoftmaxCall& call) const {
  if (attention_kernel() == AttentionKernel::own) {
    refuse_kernel(AttentionKernel::own, name() + " has none for this input");
  }
  const SoftmaxKernel* kernel = softmax_kernel(call.input, call.plain(), true);
  return kernel == nullptr ? Tensor() : kernel->attend(call);
}

Tensor DotProductAttention::attend_by_own_kernel(const Tensor& queries, const Tensor& keys,
                                                 const AttentionInput& input,
                                                 AttentionContext& context) const {
  const AttentionKernel wanted = attention_kernel();
  if (wanted != AttentionKernel::automatic && wanted != AttentionKernel::own) {
    refuse_kernel(wanted, name() + " does not normalise by softmax");
  }
  Tensor out = own_kernel(queries, keys, input, context);
  if (!out.defined() && wanted == AttentionKernel::own) {
    refuse_kernel(wanted, name() + " has none for this input");
  }
  return out;
}

Tensor DotProductAttention::to_unit(const Tensor& keys) const {
  return unit_keys_ ? unit(keys, *unit_keys_) : keys;
}

Tensor DotProductAttention::scaled(const Tensor& queries) const {
  return scale_ == 1 ? queries : queries * scale_;
}

Tensor DotProductAttention::attend_dense(const AttentionInput& input, const Tensor& diagonal,
                                         AttentionContext& context) const {
  const std::int64_t rows = input.query_count(), columns = input.key_count();
  if (rows == 0 || columns == 0) {
    return at::zeros({input.batch(), input.heads(), rows, shape().values()},
                     input.values.options());
  }
  const RelativePositions& relative = input.relative;
  const auto mapped_queries = [&](const Tensor& bias) {
    const Tensor queries =
        map_queries(bias.defined() ? input.queries + bias.unsqueeze(1) : input.queries, context);
    return diagonal.defined() ? queries * diagonal : queries;
  };
  const Tensor queries = mapped_queries(relative.content_bias);
  const Tensor mapped_keys = map_keys(input.keys, context);
  Tensor positions, distances;
  if (relative.defined()) {
    distances = to_unit(map_keys(relative.keys.unsqueeze(0), context));
    positions = mapped_queries(relative.position_bias);
  }
  const LogitTerms own = has_terms_ ? terms(input, context) : LogitTerms();
  check_terms(own, input);
  SoftmaxCall call{queries,   mapped_keys, input,
                   scale_,    unit_keys_,  is_training() ? shape().dropout : 0,
                   positions, distances,   own};
  call.terms.distance_bias = sum_of_given(own.distance_bias, input.distance_bias);
  if (normaliser_ == Normaliser::rule) {
    call.each = row_weights(input, context);
    if (call.each.rule == nullptr) {
      throw ConfigError(name() +
                        ": its settings have Normaliser::rule, but row_weights gives no rule; "
                        "override it, or take another normaliser");
    }
  }
  const bool explicitly = wants_weights(call, context);
  if (!explicitly && normaliser_ != Normaliser::custom) {
    Tensor out = attend_by_softmax_kernel(call);
    if (out.defined()) return out;
  }
  const Tensor asking = scaled(queries), keys = to_unit(mapped_keys);
  if (!explicitly && normaliser_ == Normaliser::custom) {
    Tensor out = attend_by_own_kernel(asking, keys, input, context);
    if (out.defined()) return out;
  }

  Tensor logits = product(asking, keys.transpose(-2, -1));
  if (relative.defined()) {
    logits = logits.add_(
        shift_distances(product(scaled(positions), distances.transpose(-2, -1)), columns));
  }
  if (call.terms.cap > 0) logits = capped(logits, call.terms.cap);
  if (input.bias.defined()) logits = logits.add_(input.bias);
  if (call.terms.adds()) logits = logits + call.terms.added(columns);
  const Tensor visible = visible_pairs(input.visible, rows, columns, logits.device());
  const Tensor weights = weights_of(logits, visible, call, context);
  if (context.trace != nullptr) {
    const Tensor own_bias = context.trace->bias ? own.added(columns) : Tensor();
    record(input, context, logits, visible, weights, own_bias);
  }
  return product(call.dropout > 0 ? dropout(weights, call.dropout) : weights, input.values);
}

Tensor DotProductAttention::weights_of(const Tensor& logits, const Tensor& visible,
                                       const SoftmaxCall& call, AttentionContext& context) const {
  const Visibility& rules = call.input.visible;
  const auto hidden = [](const Tensor& seen) { return seen.defined() ? seen.logical_not() : seen; };
  if (normaliser_ == Normaliser::softmax) {
    if (call.terms.signs || call.terms.sink.defined()) {
      return softmax_with(call.terms, logits, hidden(visible));
    }
    return masked_softmax(logits, visible,
                          rows_may_be_empty(rules, logits.size(2), logits.size(3)));
  }
  const Tensor seen = without_padding_queries(visible, rules.query_valid);
  if (normaliser_ == Normaliser::rule) return call.each.of(logits, hidden(seen));
  return normalise(logits, seen, context);
}

void DotProductAttention::check_terms(const LogitTerms& own, const AttentionInput& input) const {
  if (!own.any()) return;
  if (normaliser_ != Normaliser::softmax && (own.signs || own.sink.defined())) {
    throw ConfigError(name() +
                      ": LogitTerms has a sink or signs, which softmax alone knows, and the "
                      "settings ask for another normaliser; leave them out, or take softmax");
  }
  if (own.query_sums.defined() != own.key_sums.defined()) {
    throw ShapeError(name() +
                     ": LogitTerms has one of query_sums and key_sums; give both, or neither");
  }
  const std::int64_t batch = input.batch(), heads = input.heads();
  const std::int64_t rows = input.query_count(), columns = input.key_count();
  const auto refuse = [&](const char* field, const Tensor& x, const std::string& wanted) {
    throw ShapeError(fmt::format("{}: LogitTerms::{} must be {}, of the queries' dtype, found {}",
                                 name(), field, wanted, describe(x)));
  };
  const auto check_rows = [&](const char* field, const Tensor& x, std::int64_t length) {
    if (!x.defined()) return;
    const bool fits = x.dim() == 3 && (x.size(0) == 1 || x.size(0) == batch) &&
                      x.size(1) == heads && x.size(2) == length &&
                      x.scalar_type() == input.queries.scalar_type();
    if (!fits) {
      refuse(field, x, fmt::format("[B or 1, H, L] = [{} or 1, {}, {}]", batch, heads, length));
    }
  };
  check_rows("distance_bias", own.distance_bias, rows + columns - 1);
  check_rows("query_sums", own.query_sums, rows);
  check_rows("key_sums", own.key_sums, columns);
  const Tensor& sink = own.sink;
  if (sink.defined() && (sink.dim() != 1 || (sink.size(0) != 1 && sink.size(0) != heads) ||
                         sink.scalar_type() != input.queries.scalar_type())) {
    refuse("sink", sink, fmt::format("[H or 1] = [{} or 1]", heads));
  }
}

Tensor DotProductAttention::attend_sequences(const AttentionInput& input, const Tensor& diagonal,
                                             AttentionContext& context) const {
  const Visibility& visible = input.visible;
  if (normaliser_ != Normaliser::softmax || has_terms_ || input.bias.defined() ||
      input.distance_bias.defined() || input.relative.defined() || visible.pairs.defined() ||
      visible.key_valid.defined() || visible.query_valid.defined()) {
    return {};
  }
  const SoftmaxKernel* kernel = softmax_kernel(input, true, false);
  if (kernel == nullptr || kernel->attend_ragged == nullptr) return {};
  const Tensor mapped = map_queries(input.queries, context);
  const Tensor queries = diagonal.defined() ? mapped * diagonal : mapped;
  const Tensor keys = map_keys(input.keys, context);
  const double dropout = is_training() ? shape().dropout : 0;
  return kernel->attend_ragged({queries, keys, input, scale_, unit_keys_, dropout, {}, {}});
}

Tensor DotProductAttention::attend_ragged(const AttentionInput& input, const Tensor& diagonal,
                                          AttentionContext& context) const {
  if (context.trace != nullptr) {
    throw ShapeError(
        "attention input: a ragged batch has no rectangular weights to trace; trace sequences one "
        "by one, or padded with visible.key_valid");
  }
  Tensor at_once = attend_sequences(input, diagonal, context);
  if (at_once.defined()) return at_once;
  const Sequences queries(input.visible.query_offsets), keys(input.visible.key_offsets);
  // Split once: cutting a piece out of the whole for each sequence would give each a gradient as
  // large as the whole.
  const std::vector<Tensor> q = queries.split(input.queries), k = keys.split(input.keys),
                            v = keys.split(input.values);
  std::vector<Tensor> outputs;
  for (std::int64_t t = 0; t < queries.count(); ++t) {
    AttentionInput one = sequence_of(input, t);
    one.queries = q[t];
    one.keys = k[t];
    one.values = v[t];
    const std::int64_t first = queries.begin(t);
    const Tensor own = part(diagonal, -2, first, one.query_count());
    outputs.push_back(attend_dense(one, own, context).transpose(1, 2));
  }
  return outputs.empty() ? at::zeros_like(input.values) : at::cat(outputs, 1).transpose(1, 2);
}

Tensor DotProductAttention::attend_with_bias(const AttentionInput& input, const Tensor& bias,
                                             AttentionContext& context) {
  AttentionInput biased = input;
  biased.bias = input.bias.defined() ? input.bias + bias : bias;
  AttentionTrace* const whole = context.trace;
  if (whole == nullptr || !whole->bias) return DotProductAttention::attend(biased, context);
  AttentionTrace own = *whole;
  own.layers.clear();
  own.on_layer = [&](LayerTrace layer) {
    layer.bias = (whole->attached ? bias : bias.detach()).expand({-1, input.heads(), -1, -1});
    whole->take(std::move(layer));
  };
  AttentionContext inner = context;
  inner.trace = &own;
  return DotProductAttention::attend(biased, inner);
}

AttentionInput sequence_of(const AttentionInput& ragged, std::int64_t t) {
  const std::int64_t* q = ragged.visible.query_offsets.data_ptr<std::int64_t>();
  const std::int64_t* k = ragged.visible.key_offsets.data_ptr<std::int64_t>();
  return segment(ragged, q[t], q[t + 1] - q[t], k[t], k[t + 1] - k[t]);
}

Tensor visible_pairs(const Visibility& visible, std::int64_t query_count, std::int64_t key_count,
                     const at::Device& device) {
  Tensor pairs = visible.pairs;
  const auto restrict_to = [&](const Tensor& more) {
    pairs = pairs.defined() ? pairs.logical_and(more) : more;
  };
  const bool causal = visible.causal && query_count > 1;  // the last query sees every key
  const bool window = visible.window > 0 && visible.window < std::max(query_count, key_count);
  if (causal || window) {
    const at::TensorOptions options = at::TensorOptions().dtype(at::kLong).device(device);
    const Tensor behind = at::arange(key_count - query_count, key_count, options).unsqueeze(1) -
                          at::arange(key_count, options);
    if (causal) restrict_to(behind >= 0);
    if (window) restrict_to(behind.abs() < visible.window);
  }
  if (visible.key_valid.defined()) restrict_to(visible.key_valid.unsqueeze(1).unsqueeze(1));
  return pairs;
}

Tensor DotProductAttention::attend_noting(const AttentionInput& input, AttentionContext& context,
                                          LayerTrace& seen) {
  if (context.trace == nullptr) return DotProductAttention::attend(input, context);
  AttentionTrace own = *context.trace;
  own.layers.clear();
  own.weights = own.weights || own.entropy;
  own.logits = own.entropy = own.bias = false;
  own.on_layer = [&](const LayerTrace& layer) { seen = layer; };
  AttentionContext inner = context;
  inner.trace = &own;
  return DotProductAttention::attend(input, inner);
}

}  // namespace attnlab
