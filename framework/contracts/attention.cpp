// The gate of every attention: an input is checked against the contract and against the traits
// before the mechanism sees it. Only integers are compared, so it costs no tensor operation.
#include "framework/contracts/attention.h"

#include <c10/util/Type.h>
#include <fmt/format.h>

#include <algorithm>

#include "framework/tensor/by_distance.h"
#include "framework/tensor/narrow.h"

namespace attnlab {
namespace {

constexpr std::int64_t kAny = -1;

std::string shape_text(at::IntArrayRef sizes) {
  std::string text = "[";
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0) text += ", ";
    text += sizes[i] == kAny ? "*" : std::to_string(sizes[i]);
  }
  return text + "]";
}

[[noreturn]] void refuse(const char* field, const std::string& expected, const Tensor& found) {
  throw ShapeError(
      fmt::format("attention input: {} must be {}, found {}", field, expected, describe(found)));
}

bool has_shape(const Tensor& tensor, at::IntArrayRef sizes) {
  if (!tensor.defined() || tensor.dim() != static_cast<std::int64_t>(sizes.size())) return false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != kAny && tensor.size(i) != sizes[i]) return false;
  }
  return true;
}

/// As the queries: shape, dtype and device.
void check_like(const AttentionInput& in, const char* field, const char* letters,
                const Tensor& tensor, at::IntArrayRef sizes) {
  if (!has_shape(tensor, sizes)) refuse(field, letters + (" = " + shape_text(sizes)), tensor);
  if (tensor.scalar_type() != in.queries.scalar_type() || tensor.device() != in.queries.device()) {
    refuse(field, fmt::format("of the queries' dtype and device ({})", describe(in.queries)),
           tensor);
  }
}

bool broadcasts(const Tensor& tensor, at::IntArrayRef sizes) {
  const auto rank = static_cast<std::int64_t>(sizes.size());
  if (tensor.dim() > rank) return false;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    const std::int64_t size = tensor.size(i);
    if (size != 1 && size != sizes[rank - tensor.dim() + i]) return false;
  }
  return true;
}

void check_projections(const AttentionInput& in, const AttentionShape& shape) {
  const std::int64_t heads = shape.heads, dim = shape.head_dim;
  if (!has_shape(in.queries, {kAny, heads, kAny, dim}) || !in.queries.is_floating_point()) {
    refuse("queries",
           fmt::format("[B, H, Lq, D] = {} floating point", shape_text({kAny, heads, kAny, dim})),
           in.queries);
  }
  const std::int64_t batch = in.batch();
  check_like(in, "keys", "[B, H, Lk, D]", in.keys, {batch, heads, kAny, dim});
  check_like(in, "values", "[B, H, Lk, Dv]", in.values,
             {batch, heads, in.key_count(), shape.values()});
}

void check_bias_and_positions(const AttentionInput& in) {
  const std::int64_t batch = in.batch(), heads = in.heads();
  const std::int64_t queries = in.query_count(), keys = in.key_count();
  if (in.bias.defined()) {
    const std::int64_t logits[] = {batch, heads, queries, keys};
    if (!broadcasts(in.bias, logits) || in.bias.scalar_type() != in.queries.scalar_type()) {
      refuse("bias",
             "of the queries' dtype and broadcastable to [B, H, Lq, Lk] = " + shape_text(logits),
             in.bias);
    }
  }
  if (in.distance_bias.defined()) {
    if (in.visible.ragged()) {
      throw ShapeError(
          "attention input: distance_bias counts the distances of one sequence, and the batch is "
          "ragged; give `bias`, or the sequences one by one");
    }
    const std::int64_t all = std::max<std::int64_t>(queries + keys - 1, 0);
    const std::int64_t own = has_shape(in.distance_bias, {1, heads, all}) ? 1 : batch;
    check_like(in, "distance_bias", "[B or 1, H, Lq + Lk - 1]", in.distance_bias,
               {own, heads, all});
  }
  if (in.relative.defined()) {
    const std::int64_t dim = in.queries.size(3);
    check_like(in, "relative.keys", "[H, Lq + Lk - 1, D]", in.relative.keys,
               {heads, queries + keys - 1, dim});
    const Tensor& content = in.relative.content_bias;
    if (content.defined()) check_like(in, "relative.content_bias", "[H, D]", content, {heads, dim});
    const Tensor& place = in.relative.position_bias;
    if (place.defined()) check_like(in, "relative.position_bias", "[H, D]", place, {heads, dim});
  }
  const auto check_places = [&](const char* field, const Tensor& places, std::int64_t length) {
    if (!places.defined()) return;
    const bool fits =
        has_shape(places, {batch, length, kAny}) || has_shape(places, {1, length, kAny});
    if (!fits) {
      refuse(field, fmt::format("[B or 1, L, P] with B = {}, L = {}", batch, length), places);
    }
  };
  check_places("query_positions", in.query_positions, queries);
  check_places("key_positions", in.key_positions, keys);
}

void check_offsets(const char* field, const Tensor& offsets, std::int64_t total) {
  const std::string expected = fmt::format("[T + 1] int64 on the CPU, rising from 0 to {}", total);
  if (!offsets.defined() || offsets.dim() != 1 || offsets.size(0) < 1 ||
      offsets.scalar_type() != at::kLong || !offsets.device().is_cpu() ||
      !offsets.is_contiguous()) {
    refuse(field, expected, offsets);
  }
  const std::int64_t* at = offsets.data_ptr<std::int64_t>();
  const std::int64_t last = offsets.size(0) - 1;
  if (at[0] != 0 || at[last] != total) {
    refuse(field, fmt::format("{} (it goes from {} to {})", expected, at[0], at[last]), offsets);
  }
  for (std::int64_t t = 0; t < last; ++t) {
    if (at[t] > at[t + 1]) {
      refuse(field, fmt::format("{} (entry {} falls)", expected, t + 1), offsets);
    }
  }
}

void check_visibility(const AttentionInput& in) {
  const Visibility& visible = in.visible;
  if (visible.window < 0) {
    throw ShapeError(fmt::format(
        "attention input: visible.window must be 0 (no limit) or more, found {}", visible.window));
  }
  const Tensor& valid = visible.key_valid;
  if (valid.defined() &&
      (valid.scalar_type() != at::kBool || !has_shape(valid, {in.batch(), in.key_count()}))) {
    refuse("visible.key_valid",
           fmt::format("[B, Lk] = {} bool, true = a real key",
                       shape_text({in.batch(), in.key_count()})),
           valid);
  }
  const Tensor& asking = visible.query_valid;
  if (asking.defined() &&
      (asking.scalar_type() != at::kBool || !has_shape(asking, {in.batch(), in.query_count()}))) {
    refuse("visible.query_valid",
           fmt::format("[B, Lq] = {} bool, true = a real query",
                       shape_text({in.batch(), in.query_count()})),
           asking);
  }
  const std::int64_t logits[] = {in.batch(), in.heads(), in.query_count(), in.key_count()};
  const Tensor& pairs = visible.pairs;
  if (pairs.defined() && (pairs.scalar_type() != at::kBool || !broadcasts(pairs, logits))) {
    refuse("visible.pairs",
           "bool, true = may see, broadcastable to [B, H, Lq, Lk] = " + shape_text(logits), pairs);
  }
  if (!visible.query_offsets.defined() && !visible.key_offsets.defined()) return;
  check_offsets("visible.query_offsets", visible.query_offsets, in.query_count());
  check_offsets("visible.key_offsets", visible.key_offsets, in.key_count());
  if (visible.query_offsets.size(0) != visible.key_offsets.size(0)) {
    refuse("visible.key_offsets", "as long as query_offsets " + describe(visible.query_offsets),
           visible.key_offsets);
  }
  if (in.batch() != 1) {
    throw ShapeError(fmt::format(
        "attention input: a ragged batch lies end to end, so B must be 1, found {}", in.batch()));
  }
}

bool lengths_differ(const AttentionInput& in) {
  if (in.query_count() != in.key_count()) return true;
  if (!in.visible.ragged()) return false;
  const std::int64_t* queries = in.visible.query_offsets.data_ptr<std::int64_t>();
  const std::int64_t* keys = in.visible.key_offsets.data_ptr<std::int64_t>();
  return !std::equal(queries, queries + in.visible.query_offsets.size(0), keys);
}

void check_sources(const AttentionInput& in, const AttentionShape& shape) {
  const std::int64_t batch = shape.members * in.batch();
  const auto check = [&](const char* field, const char* letters, const Tensor& source,
                         std::int64_t length, std::int64_t width) {
    check_like(in, field, letters, source, {batch, length, width});
  };
  check("query_source", "[members * B, Lq, query_width]", in.query_source, in.query_count(),
        shape.query_width);
  check("key_source", "[members * B, Lk, key_width]", in.key_source, in.key_count(),
        shape.key_width);
  check("value_source", "[members * B, Lk, value_width]", in.value_source, in.key_count(),
        shape.value_width);
}

void check_traits(const AttentionInput& in, const AttentionTraits& has,
                  const torch::nn::Module& attention) {
  const auto need = [&](bool used, bool present, const char* trait, const char* by) {
    if (!used || present) return;
    throw TraitError(fmt::format(
        "{} has no trait '{}', but {}; take an attention that declares it, or leave that input out",
        attention.name(), trait, by));
  };
  const Visibility& visible = in.visible;
  need(in.bias.defined(), has.bias, "bias", "the input gives a bias on the logits");
  need(in.distance_bias.defined(), has.bias, "bias", "the input gives a bias by distance");
  need(visible.causal, has.causal, "causal", "the input sets visible.causal");
  need(visible.window != 0, has.window, "window", "the input sets visible.window");
  need(visible.pairs.defined(), has.pair_mask, "pair_mask", "the input gives visible.pairs");
  need(visible.key_valid.defined(), has.padding, "padding", "the input gives visible.key_valid");
  need(visible.query_valid.defined(), has.padding, "padding",
       "the input gives visible.query_valid");
  need(visible.ragged(), has.ragged, "ragged", "the input gives visible.query_offsets");
  need(in.values_from_elsewhere, has.different_source, "different_source",
       "the input's values come from another sequence than its keys");
  need(in.relative.defined(), has.relative_positions, "relative_positions",
       "the input gives relative positions");
  need(in.query_source.defined() || in.key_source.defined() || in.value_source.defined(),
       has.sources, "sources", "the input gives what queries, keys and values come from");
  if (has.ordered && !visible.causal) {
    throw TraitError(fmt::format(
        "{} has the trait 'ordered', but the input does not set visible.causal; take an attention "
        "that needs no order, or a model with the causal rule",
        attention.name()));
  }
  if (!has.different_lengths) {
    need(lengths_differ(in), false, "different_lengths",
         "queries and keys of the input differ in length");
  }
}

/// @param in  of 16 bits. @returns the same in float32.
AttentionInput widened(AttentionInput in) {
  RelativePositions& relative = in.relative;
  for (Tensor* x : {&in.queries, &in.keys, &in.values, &in.bias, &in.distance_bias, &relative.keys,
                    &relative.content_bias, &relative.position_bias, &in.query_positions,
                    &in.key_positions, &in.query_source, &in.key_source, &in.value_source}) {
    *x = wide(*x);
  }
  return in;
}

/// @param in  with a bias by distance. @returns the same with it by pair, in `bias`.
AttentionInput with_pairs(AttentionInput in) {
  if (in.query_count() > 0 && in.key_count() > 0) {
    const Tensor pairs = pairs_of_distances(in.distance_bias, in.key_count());
    in.bias = in.bias.defined() ? in.bias + pairs : pairs;
  }
  in.distance_bias = Tensor();
  return in;
}

}  // namespace

void ForwardState::each(const TensorVisit& visit) {
  for (auto& [type, slot] : slots_) {
    if (slot.each == nullptr) {
      throw ConfigError(
          fmt::format("train.recompute: layers keep a state for the next ones ({}) that does not "
                      "name its tensors; give that struct a function each (ForwardState in "
                      "framework/contracts/attention.h), or set train.recompute to none",
                      c10::demangle(type.c_str())));
    }
    slot.each(slot.value, visit);
  }
}

void AttentionLosses::add(const std::string& name, const Tensor& value) {
  if (!value.defined() || value.numel() != 1) {
    throw ShapeError(fmt::format("the attention's loss '{}' must be one number, found {}", name,
                                 describe(value)));
  }
  all_[name].push_back(value.reshape({}));
}

Attention::Attention(const AttentionShape& shape, const AttentionTraits& traits)
    : shape_(shape), traits_(traits) {
  if (!traits.sources) return;
  if (shape.query_width > 0 && shape.key_width > 0 && shape.value_width > 0) return;
  throw ConfigError(
      "it reads what queries, keys and values are projected from (trait 'sources'), which this "
      "model does not give; choose another attention, or a model that sets AttentionShape's "
      "query_width, key_width and value_width");
}

void Attention::to(at::Device device, at::ScalarType dtype, bool non_blocking) {
  Module::to(device, dtype, non_blocking);
  if (is_narrow(dtype)) Module::to(at::kFloat, non_blocking);
}

void Attention::to(at::ScalarType dtype, bool non_blocking) {
  Module::to(dtype, non_blocking);
  if (is_narrow(dtype)) Module::to(at::kFloat, non_blocking);
}

std::int64_t AttentionMemory::bytes() const {
  std::int64_t sum = 0;
  for (const Tensor& part : parts) {
    if (!part.defined()) continue;
    sum += part.numel() * static_cast<std::int64_t>(part.element_size());
  }
  return sum;
}

Tensor Attention::attend_behind(const AttentionInput&, AttentionMemory&, AttentionContext&) {
  throw ShapeError(name() + " keeps no memory of its own; give it the keys of all tokens");
}

Tensor Attention::only_part(const AttentionMemory& memory, at::IntArrayRef sizes) const {
  if (memory.parts.empty()) return {};
  if (memory.parts.size() == 1 && memory.parts[0].sizes() == sizes) return memory.parts[0];
  throw ShapeError(
      fmt::format("{}: the memory is of another attention or batch: it has {} parts, the first {}; "
                  "one of {} is expected",
                  name(), memory.parts.size(), describe(memory.parts[0]), shape_text(sizes)));
}

Tensor Attention::extend(const AttentionInput& input, AttentionMemory& memory,
                         AttentionContext& context) {
  check_projections(input, shape_);
  check_bias_and_positions(input);
  check_traits(input, traits_, *this);
  if (traits_.sources) check_sources(input, shape_);
  const Visibility& visible = input.visible;
  if (!visible.causal || input.query_count() != input.key_count() || visible.window != 0 ||
      visible.pairs.defined() || visible.key_valid.defined() || visible.query_valid.defined() ||
      visible.ragged() || input.bias.defined() || input.distance_bias.defined() ||
      input.relative.defined()) {
    throw ShapeError(
        "attention input: behind a memory, queries and keys are the same new tokens under the "
        "causal rule alone; leave the rest out, or call forward with all tokens");
  }
  const bool narrow = is_narrow(input.queries);
  Tensor out = narrow
                   ? attend_behind(widened(input), memory, context).to(input.queries.scalar_type())
                   : attend_behind(input, memory, context);
  for (Tensor& part : memory.parts) part = part.detach();
  return out;
}

Tensor Attention::forward(const AttentionInput& input, AttentionContext& context) {
  if (!projection_read_ && !projection_.plain()) {
    throw ConfigError(
        "attention.projection: this model makes keys and values in a way of its own; leave the "
        "key out, or choose another model");
  }
  if (!positions_read_ && !positions_.plain()) {
    throw ConfigError(
        "attention.positions: this model makes queries and keys in a way of its own; leave the key "
        "out, or choose another model");
  }
  check_projections(input, shape_);
  check_visibility(input);
  check_bias_and_positions(input);
  check_traits(input, traits_, *this);
  if (traits_.sources) check_sources(input, shape_);
  if (input.distance_bias.defined() && !reads_distance_bias()) {
    return forward(with_pairs(widened(input)), context).to(input.queries.scalar_type());
  }
  const bool adds = losses_ != nullptr && is_training() && at::GradMode::is_enabled();
  AttentionContext adding = context;
  if (adds) adding.losses = losses_;
  AttentionContext& own = adds ? adding : context;
  const bool narrow = is_narrow(input.queries);
  Tensor out =
      narrow ? attend(widened(input), own).to(input.queries.scalar_type()) : attend(input, own);
  const Tensor& asking = input.visible.query_valid;
  if (!asking.defined()) return out;
  return out.masked_fill(asking.logical_not().unsqueeze(1).unsqueeze(-1), 0);
}

}  // namespace attnlab
