// Multi-head attention: see the header.
#include "framework/nn/modules/multi_head_attention.h"

#include <fmt/format.h>

#include <cmath>

#include "framework/nn/kernels/dropout.h"
#include "framework/nn/kernels/packed_heads.h"
#include "framework/nn/kernels/precision.h"
#include "framework/nn/kernels/relative_shift.h"

namespace attnlab {
namespace {

/// Every parameter and buffer of an ensemble's attention must be E times one member's: what is not
/// would serve several members.
/// @param single  what one model's attention has
void check_apart(const Attention& single, const Attention& ensemble, std::int64_t members) {
  const auto check = [&](const auto& one, const auto& all) {
    for (const auto& item : all) {
      const Tensor* const alone = one.find(item.key());
      const Tensor& found = item.value();
      if (alone != nullptr && alone->dim() > 0 && alone->dim() == found.dim() &&
          found.size(0) == members * alone->size(0) &&
          found.sizes().slice(1) == alone->sizes().slice(1)) {
        continue;
      }
      throw ShapeError(fmt::format(
          "attention '{}' cannot stand in an ensemble of {} members: its '{}' is {} where one "
          "model has {}, and must have {} times the rows; make what heads share each member's own "
          "(AttentionShape::members), or train its runs one by one",
          ensemble.name(), members, item.key(), describe(found),
          alone == nullptr ? "none" : describe(*alone), members));
    }
  };
  check(single.named_parameters(), ensemble.named_parameters());
  check(single.named_buffers(), ensemble.named_buffers());
}

bool has_state(const Attention& attention) {
  return !attention.parameters().empty() || !attention.buffers().empty();
}

[[noreturn]] void refuse(const std::string& what) {
  throw ShapeError(
      fmt::format("MultiHeadAttention: an ensemble cannot take {}; train such runs one by one, or "
                  "leave that input out",
                  what));
}

}  // namespace

void check_heads(std::int64_t dim, std::int64_t heads, const char* option) {
  if (dim % heads == 0) return;
  throw OptionError(option,
                    fmt::format("{} heads do not divide dim {}; change either", heads, dim));
}

MultiHeadAttention::MultiHeadAttention(const MultiHeadOptions& options,
                                       const AttentionBuilder& attention)
    : heads_(options.heads), members_(options.members), dropout_(options.dropout) {
  const std::int64_t dim = options.dim;
  if (options.head_dim == 0 && (heads_ <= 0 || dim % heads_ != 0)) {
    throw ShapeError(fmt::format(
        "MultiHeadAttention: {} heads do not divide {} channels; change either, or give head_dim",
        heads_, dim));
  }
  head_dim_ = options.head_dim == 0 ? dim / heads_ : options.head_dim;
  value_dim_ = options.value_dim == 0 ? head_dim_ : options.value_dim;
  const std::int64_t key_source = options.key_source == 0 ? dim : options.key_source;
  const std::int64_t value_source = options.value_source == 0 ? dim : options.value_source;

  AttentionShape shape;
  shape.heads = heads_;
  shape.head_dim = head_dim_;
  shape.value_dim = options.value_dim;
  shape.layer = options.layer;
  shape.layers = options.layers;
  shape.dropout = options.attention_dropout;
  shape.query_width = dim;
  shape.key_width = key_source;
  shape.value_width = value_source;
  attention_ = attention(shape);
  side_by_side_ = members_ > 1 && has_state(*attention_);
  if (side_by_side_) {
    const std::shared_ptr<Attention> single = attention_;
    shape.heads = members_ * heads_;
    shape.members = members_;
    attention_ = attention(shape);
    check_apart(*single, *attention_, members_);
  }
  make_projections(options, attention_->projection());
  const Positions& asked = attention_->positions();
  if (!asked.plain()) {
    positions_ = register_module(
        "positions",
        std::make_shared<LayerPositions>(asked, heads_, head_dim_, members_, side_by_side_));
  }
  register_module("attention", attention_);
  output_ = register_module(
      "output", std::make_shared<Linear>(heads_ * value_dim_, dim, options.output_bias, members_));
}

void MultiHeadAttention::make_projections(const MultiHeadOptions& options,
                                          const Projection& asked) {
  const std::int64_t dim = options.dim;
  const std::int64_t key_source = options.key_source == 0 ? dim : options.key_source;
  const std::int64_t value_source = options.value_source == 0 ? dim : options.value_source;
  key_heads_ = asked.key_heads == 0 ? heads_ : asked.key_heads;
  if (heads_ % key_heads_ != 0) {
    throw ConfigError(fmt::format(
        "attention.projection.key_heads: {} heads of keys do not divide {} heads of queries; "
        "choose a divisor",
        key_heads_, heads_));
  }
  if (asked.rank > 0 && key_source != value_source) {
    throw ConfigError(fmt::format(
        "attention.projection.rank: keys come from {} channels and values from {}, so that they "
        "cannot share a projection of a low rank; leave it out",
        key_source, value_source));
  }
  const auto linear = [&](const char* name, std::int64_t in, std::int64_t out, bool bias) {
    return register_module(name, std::make_shared<Linear>(in, out, bias, members_));
  };
  const bool bias = options.qkv_bias;
  if (key_source == dim && value_source == dim && key_heads_ == heads_ && asked.rank == 0) {
    packed_ = linear("qkv", dim, heads_ * (2 * head_dim_ + value_dim_), bias);
    return;
  }
  query_ = linear("query", dim, heads_ * head_dim_, bias);
  if (asked.rank > 0) latent_ = linear("latent", key_source, asked.rank, bias);
  key_ = linear("key", asked.rank > 0 ? asked.rank : key_source, key_heads_ * head_dim_, bias);
  value_ =
      linear("value", asked.rank > 0 ? asked.rank : value_source, key_heads_ * value_dim_, bias);
}

Tensor MultiHeadAttention::by_head(const Tensor& y, std::int64_t channels) const {
  return y.view({y.size(0), y.size(1), y.size(2) / channels, channels});
}

Tensor MultiHeadAttention::split(const Tensor& y) const {
  if (!side_by_side_) return y.transpose(1, 2);
  const std::int64_t batch = y.size(0) / members_, length = y.size(1), heads = y.size(2);
  return y.view({members_, batch, length, heads, y.size(3)})
      .permute({1, 0, 3, 2, 4})
      .reshape({batch, members_ * heads, length, y.size(3)});
}

Tensor MultiHeadAttention::spread(const Tensor& x) const {
  const std::int64_t each = heads_ / key_heads_;
  if (each == 1) return x;
  return x.unsqueeze(2)
      .expand({x.size(0), x.size(1), each, x.size(2), x.size(3)})
      .reshape({x.size(0), x.size(1) * each, x.size(2), x.size(3)});
}

Tensor MultiHeadAttention::merge(const Tensor& heads) const {
  const std::int64_t length = heads.size(2);
  if (!side_by_side_) {
    return heads.transpose(1, 2).reshape({heads.size(0), length, heads_ * value_dim_});
  }
  const std::int64_t batch = heads.size(0);
  return heads.reshape({batch, members_, heads_, length, value_dim_})
      .permute({1, 0, 3, 2, 4})
      .reshape({members_ * batch, length, heads_ * value_dim_});
}

Tensor MultiHeadAttention::project(const Tensor& x, int which) const {
  const std::int64_t channels = which == 2 ? value_dim_ : head_dim_;
  const Tensor y = packed_ == nullptr
                       ? (which == 0   ? query_
                          : which == 1 ? key_
                                       : value_)
                             ->forward(x)
                       : packed_->forward(x, {which * heads_ * head_dim_, heads_ * channels});
  return split(by_head(y, channels));
}

void MultiHeadAttention::project_all(const Tensor& queries, const Tensor& keys,
                                     const Tensor& values, AttentionInput& input) const {
  const bool packed = packed_ != nullptr && keys.is_same(values);
  const bool one_source = packed && queries.is_same(keys);
  const std::int64_t width = heads_ * head_dim_, value_width = heads_ * value_dim_;
  if (one_source && members_ == 1 && value_dim_ == head_dim_) {
    // Views of one product: nothing is moved.
    const std::vector<Tensor> qkv = unpack_heads(packed_->forward(queries), heads_, 3);
    input.queries = qkv[0];
    input.keys = qkv[1];
    input.values = qkv[2];
    return;
  }
  if (!packed) {
    const Tensor of_keys = latent_of(keys);
    const Tensor of_values = keys.is_same(values) ? of_keys : latent_of(values);
    input.queries = project(queries, 0);
    input.keys = spread(project(of_keys, 1));
    input.values = spread(project(of_values, 2));
    return;
  }
  std::vector<Tensor> parts;
  if (one_source) {
    parts = packed_->forward_parts(keys, 0, {width, width, value_width});
  } else {
    parts = packed_->forward_parts(keys, width, {width, value_width});
    parts.insert(parts.begin(), packed_->forward(queries, {0, width}));
  }
  input.queries = split(by_head(parts[0], head_dim_));
  input.keys = split(by_head(parts[1], head_dim_));
  input.values = split(by_head(parts[2], value_dim_));
}

Tensor MultiHeadAttention::forward(const Tensor& x, AttentionContext& context,
                                   const AttentionExtras& extras) {
  return forward(x, x, x, context, extras);
}

Tensor MultiHeadAttention::forward(const Tensor& queries, const Tensor& keys, const Tensor& values,
                                   AttentionContext& context, const AttentionExtras& extras) {
  AttentionInput input;
  input.values_from_elsewhere = !values.is_same(keys);
  project_all(queries, keys, values, input);
  add_sources(queries, keys, values, input);
  add_extras(extras, input);
  return ask(input, context);
}

Tensor MultiHeadAttention::ask(AttentionInput& input, AttentionContext& context) {
  if (positions_ != nullptr) positions_->add_to(input);
  drop_places(input);
  return finished(attention_->forward(input, context));
}

void MultiHeadAttention::drop_places(AttentionInput& input) const {
  if (positions_ == nullptr || attention_->reads_places()) return;
  for (Tensor* places : {&input.query_positions, &input.key_positions}) {
    if (places->defined() && places->size(2) != 1) *places = Tensor();
  }
}

Tensor MultiHeadAttention::forward_after(const Tensor& before, const Tensor& x,
                                         AttentionContext& context, const AttentionExtras& extras) {
  if (packed_ == nullptr || members_ > 1 || value_dim_ != head_dim_ || before.requires_grad()) {
    const Tensor sources = at::cat({before, x}, 1);
    return forward(x, sources, sources, context, extras);
  }
  const std::int64_t width = heads_ * head_dim_;
  const std::vector<Tensor> kv =
      unpack_heads(packed_->forward_after(before, x, {width, 2 * width}), heads_, 2);
  AttentionInput input;
  input.queries = project(x, 0);
  input.keys = kv[0];
  input.values = kv[1];
  if (reads_sources()) {
    const Tensor sources = at::cat({before, x}, 1);
    add_sources(x, sources, sources, input);
  }
  add_extras(extras, input);
  return ask(input, context);
}

Tensor MultiHeadAttention::forward_placed(const Tensor& queries, const Tensor& tokens,
                                          const Tensor& places, AttentionContext& context) {
  if (packed_ == nullptr) {
    const Tensor placed = add_by_member(tokens, places, members_);
    return forward(queries, placed, placed, context);
  }
  const std::int64_t width = heads_ * head_dim_;
  const std::vector<Tensor> parts =
      packed_->forward_parts(tokens, places, width, {width, heads_ * value_dim_});
  AttentionInput input;
  input.queries = split(by_head(packed_->forward(queries, {0, width}), head_dim_));
  input.keys = split(by_head(parts[0], head_dim_));
  input.values = split(by_head(parts[1], value_dim_));
  if (reads_sources()) {
    const Tensor placed = add_by_member(tokens, places, members_);
    add_sources(queries, placed, placed, input);
  }
  return ask(input, context);
}

Tensor MultiHeadAttention::forward_cached(const Tensor& x, KeyCache& cache,
                                          AttentionContext& context,
                                          const AttentionExtras& extras) {
  if (members_ > 1) refuse("cached keys");
  const auto behind = [](const Tensor& kept, const Tensor& added, std::int64_t dim) {
    return kept.defined() ? at::cat({kept, added}, dim) : added;
  };
  const std::int64_t count = x.size(1), before = cache.tokens();
  Tensor place;
  if (turns()) {
    place = cache.place.defined()
                ? cache.place
                : at::zeros({x.size(0)}, at::TensorOptions().dtype(at::kLong).device(x.device()));
  }
  // Queries or keys, the first of which stands so many places before the first new token.
  const auto turned_at = [&](const Tensor& heads, std::int64_t back) {
    return turns() ? positions_->turned_from(heads, place - back) : heads;
  };
  AttentionInput input;
  if (attention_->remembers() && !biases()) {
    project_all(x, x, x, input);
    input.queries = turned_at(input.queries, 0);
    input.keys = turned_at(input.keys, 0);
    add_extras(extras, input);
    add_sources(x, x, x, input);
    const auto of_new = [&](const Tensor& places) {
      return places.defined() ? places.narrow(1, places.size(1) - count, count) : places;
    };
    input.query_positions = of_new(input.query_positions);
    input.key_positions = of_new(input.key_positions);
    if (positions_ != nullptr) LayerPositions::check_text(input);
    if (turns()) cache.place = place + count;
    return finished(attention_->extend(input, cache.memory, context));
  }
  KeyCache all;
  if (turns()) all.place = place + count;
  if (latent_ != nullptr) {
    all.latent = behind(cache.latent, latent_->forward(x), 1);
    input.queries = project(x, 0);
    input.keys = spread(turned_at(project(all.latent, 1), before));
    input.values = spread(project(all.latent, 2));
  } else if (packed_ != nullptr) {
    project_all(x, x, x, input);
    all.keys = input.keys = behind(cache.keys, turned_at(input.keys, 0), 2);
    all.values = input.values = behind(cache.values, input.values, 2);
  } else {
    all.keys = behind(cache.keys, turned_at(project(x, 1), 0), 2);
    all.values = behind(cache.values, project(x, 2), 2);
    input.queries = project(x, 0);
    input.keys = spread(all.keys);
    input.values = spread(all.values);
  }
  input.queries = turned_at(input.queries, 0);
  add_extras(extras, input);
  if (reads_sources()) {
    all.sources = behind(cache.sources, x, 1);
    add_sources(x, all.sources, all.sources, input);
  }
  if (attention_->couples_queries()) {  // earlier ones are asked again
    all.queries = input.queries = behind(cache.queries, input.queries, 2);
    input.query_source = all.sources;
    input.query_positions = input.key_positions;
  }
  for (Tensor* kept : {&all.keys, &all.values, &all.sources, &all.queries, &all.latent}) {
    if (kept->defined()) *kept = kept->detach();
  }
  cache = all;
  if (positions_ != nullptr) LayerPositions::check_text(input);
  if (biases()) positions_->add_bias_of_text(input);
  const Tensor y = attention_->forward(input, context);
  return finished(y.narrow(2, y.size(2) - count, count));
}

Tensor MultiHeadAttention::finished(const Tensor& attended) {
  const Tensor y = output_->forward(merge(attended));
  return is_training() && dropout_ > 0 ? dropout(y, dropout_) : y;
}

Tensor MultiHeadAttention::beside_heads(const Tensor& x) const {
  if (!x.defined() || x.dim() < 3 || x.dim() > 4) return x;  // a wrong rank is the gate's to refuse
  Tensor full = x.dim() == 3 ? x.unsqueeze(0) : x;
  const std::int64_t examples = full.size(0), heads = full.size(1);
  if (examples == 1 && heads == 1) return full;
  if ((examples != 1 && examples % members_ != 0) || (heads != 1 && heads != heads_)) {
    throw ShapeError(
        fmt::format("MultiHeadAttention: masks and biases of an ensemble of {} members with {} "
                    "heads each broadcast to [members * B, heads, Lq, Lk], found {}",
                    members_, heads_, describe(x)));
  }
  const std::int64_t rows = full.size(2), columns = full.size(3);
  const Tensor apart = examples == 1
                           ? full.unsqueeze(0).expand({members_, 1, heads, rows, columns})
                           : full.view({members_, examples / members_, heads, rows, columns});
  return apart.expand({members_, apart.size(1), heads_, rows, columns})
      .transpose(0, 1)
      .reshape({apart.size(1), members_ * heads_, rows, columns});
}

void MultiHeadAttention::add_relative_bias(const RelativePositions& relative,
                                           AttentionInput& input) const {
  const auto moved_by = [&](const Tensor& by) {
    return by.defined() ? input.queries + by.unsqueeze(1) : input.queries;
  };
  const Tensor by_distance =
      product(moved_by(relative.position_bias), relative.keys.transpose(-2, -1));
  const Tensor term =
      shift_distances(by_distance, input.key_count()) / std::sqrt(double(head_dim_));
  input.bias = input.bias.defined() ? input.bias + term : term;
  input.queries = moved_by(relative.content_bias);
}

void MultiHeadAttention::add_sources(const Tensor& queries, const Tensor& keys,
                                     const Tensor& values, AttentionInput& input) const {
  if (!reads_sources()) return;
  input.query_source = queries;
  input.key_source = keys;
  input.value_source = values;
}

std::int64_t KeyCache::bytes() const {
  return AttentionMemory{{keys, values, sources, queries, latent, place}}.bytes() + memory.bytes();
}

std::int64_t KeyCache::tokens() const {
  if (latent.defined()) return latent.size(1);
  return keys.defined() ? keys.size(2) : 0;
}

KeyCache KeyCache::last(std::int64_t n) const {
  const auto end_of = [&](const Tensor& x, std::int64_t dim) {
    return !x.defined() || x.size(dim) <= n ? x : x.narrow(dim, x.size(dim) - n, n);
  };
  return {end_of(keys, 2),
          end_of(values, 2),
          end_of(sources, 1),
          end_of(queries, 2),
          end_of(latent, 1),
          place,
          memory};
}

void MultiHeadAttention::add_extras(const AttentionExtras& extras, AttentionInput& input) const {
  if (turns() && extras.relative.defined()) {
    throw ConfigError(
        "attention.positions: rotary beside the model's own relative positions, whose keys have no "
        "position to rotate by; set model.positions to none, or take the key out");
  }
  input.visible = extras.visible;
  input.bias = extras.bias;
  if (extras.relative_as_bias) {
    add_relative_bias(extras.relative, input);
  } else {
    input.relative = extras.relative;
  }
  input.query_positions = extras.query_positions;
  input.key_positions = extras.key_positions;
  if (members_ == 1) return;
  if (extras.visible.ragged()) refuse("ragged batches");
  if (extras.relative.defined()) refuse("relative positions");
  if (!side_by_side_) return;
  for (const Tensor* places : {&extras.query_positions, &extras.key_positions}) {
    if (places->defined() && places->size(0) > 1) {
      refuse(fmt::format(
          "positions that differ between examples beside attention '{}', which has parameters",
          attention_->name()));
    }
  }
  Visibility& visible = input.visible;
  const auto restrict_to = [&](const Tensor& valid, std::int64_t dim) {
    if (!valid.defined()) return;
    if (!attention_->traits().pair_mask) {
      refuse(fmt::format(
          "padding beside attention '{}', which has parameters and no trait 'pair_mask'",
          attention_->name()));
    }
    const Tensor more = valid.unsqueeze(1).unsqueeze(dim);
    visible.pairs = visible.pairs.defined() ? visible.pairs.logical_and(more) : more;
  };
  // A member's padding is that of its examples, and these now stand beside others': as pairs, by
  // head. A query that sees nothing gives zeros, as padding does.
  restrict_to(visible.key_valid, 2);
  restrict_to(visible.query_valid, 3);
  visible.key_valid = visible.query_valid = Tensor();
  visible.pairs = beside_heads(visible.pairs);
  input.bias = beside_heads(input.bias);
}

}  // namespace attnlab
