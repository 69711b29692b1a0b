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

  const auto linear = [&](const char* name, std::int64_t in, std::int64_t out, bool bias) {
    return register_module(name, std::make_shared<Linear>(in, out, bias, members_));
  };
  const bool bias = options.qkv_bias;
  if (key_source == dim && value_source == dim) {
    packed_ = linear("qkv", dim, heads_ * (2 * head_dim_ + value_dim_), bias);
  } else {
    query_ = linear("query", dim, heads_ * head_dim_, bias);
    key_ = linear("key", key_source, heads_ * head_dim_, bias);
    value_ = linear("value", value_source, heads_ * value_dim_, bias);
  }
  AttentionShape shape;
  shape.heads = heads_;
  shape.head_dim = head_dim_;
  shape.value_dim = options.value_dim;
  shape.layer = options.layer;
  shape.layers = options.layers;
  shape.dropout = options.attention_dropout;
  attention_ = attention(shape);
  side_by_side_ = members_ > 1 && has_state(*attention_);
  if (side_by_side_) {
    const std::shared_ptr<Attention> single = attention_;
    shape.heads = members_ * heads_;
    shape.members = members_;
    attention_ = attention(shape);
    check_apart(*single, *attention_, members_);
  }
  register_module("attention", attention_);
  output_ = linear("output", heads_ * value_dim_, dim, options.output_bias);
}

Tensor MultiHeadAttention::by_head(const Tensor& y, std::int64_t channels) const {
  return y.view({y.size(0), y.size(1), heads_, channels});
}

Tensor MultiHeadAttention::split(const Tensor& y) const {
  if (!side_by_side_) return y.transpose(1, 2);
  const std::int64_t batch = y.size(0) / members_, length = y.size(1), channels = y.size(3);
  return y.view({members_, batch, length, heads_, channels})
      .permute({1, 0, 3, 2, 4})
      .reshape({batch, members_ * heads_, length, channels});
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
    input.queries = project(queries, 0);
    input.keys = project(keys, 1);
    input.values = project(values, 2);
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
  add_extras(extras, input);
  return finished(input, context);
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
  add_extras(extras, input);
  return finished(input, context);
}

Tensor MultiHeadAttention::forward_placed(const Tensor& queries, const Tensor& tokens,
                                          const Tensor& places, AttentionContext& context) {
  if (packed_ == nullptr) {
    throw ShapeError(
        "MultiHeadAttention: tokens at places need sources as wide as the queries; "
        "add the places to the tokens and call forward");
  }
  const std::int64_t width = heads_ * head_dim_;
  const std::vector<Tensor> parts =
      packed_->forward_parts(tokens, places, width, {width, heads_ * value_dim_});
  AttentionInput input;
  input.queries = split(by_head(packed_->forward(queries, {0, width}), head_dim_));
  input.keys = split(by_head(parts[0], head_dim_));
  input.values = split(by_head(parts[1], value_dim_));
  return finished(input, context);
}

Tensor MultiHeadAttention::forward_cached(const Tensor& x, KeyCache& cache,
                                          AttentionContext& context,
                                          const AttentionExtras& extras) {
  if (members_ > 1) refuse("cached keys");
  AttentionInput input;
  project_all(x, x, x, input);
  if (cache.keys.defined()) {
    input.keys = at::cat({cache.keys, input.keys}, 2);
    input.values = at::cat({cache.values, input.values}, 2);
  }
  cache = {input.keys.detach(), input.values.detach()};
  add_extras(extras, input);
  return finished(input, context);
}

Tensor MultiHeadAttention::finished(const AttentionInput& input, AttentionContext& context) {
  const Tensor y = output_->forward(merge(attention_->forward(input, context)));
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

void MultiHeadAttention::add_extras(const AttentionExtras& extras, AttentionInput& input) const {
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
