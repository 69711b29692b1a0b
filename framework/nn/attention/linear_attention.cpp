// Attention at linear cost: see the header.
#include "framework/nn/attention/linear_attention.h"

#include <ATen/OpMathType.h>

#include <algorithm>

#include "framework/nn/kernels/precision.h"

namespace attnlab {
namespace {

// Keys of one chunk: near the usual numbers of channels, where both halves of the work are equal.
constexpr std::int64_t kChunk = 64;

void check(const Visibility& visible) {
  if (visible.window == 0 && !visible.pairs.defined() && !visible.ragged()) return;
  throw ShapeError(
      "linear_sums: a window, a pair mask or a ragged batch is not possible at linear cost; take "
      "the explicit form, and ragged sequences one by one");
}

/// [B, H, L, C] to [B, H, chunks, kChunk, C], zeros after the end.
Tensor in_chunks(const Tensor& x, std::int64_t chunks) {
  const std::int64_t missing = chunks * kChunk - x.size(2);
  const Tensor whole = missing > 0 ? at::constant_pad_nd(x, {0, 0, 0, missing}) : x;
  return whole.reshape({x.size(0), x.size(1), chunks, kChunk, x.size(3)});
}

/// The sums within equally long sequences: query i sees keys up to i.
/// @param ..  [..., L, C]
Tensor masked_sums(const Tensor& queries, const Tensor& keys, const Tensor& values) {
  return product(product(queries, keys.transpose(-2, -1)).tril(), values);
}

/// As many queries as keys; query i sees keys up to i and all that `before` has summed.
/// @param before  [B, H, D, Dv], or undefined.
Tensor causal_sums(const Tensor& queries, const Tensor& keys, const Tensor& values,
                   const Tensor& before) {
  const std::int64_t length = queries.size(2), chunks = (length + kChunk - 1) / kChunk;
  if (chunks <= 1) {
    const Tensor sums = masked_sums(queries, keys, values);
    return before.defined() ? sums + product(queries, before) : sums;
  }
  const Tensor q = in_chunks(queries, chunks), k = in_chunks(keys, chunks);
  const Tensor v = in_chunks(values, chunks);
  // The state before chunk c: what chunks 0 to c - 1 have added. The last chunk's own is not
  // needed.
  const std::int64_t last = chunks - 1;
  const Tensor added = product(k.narrow(2, 0, last).transpose(-2, -1), v.narrow(2, 0, last));
  Tensor states = at::constant_pad_nd(added.cumsum(2), {0, 0, 0, 0, 1, 0});
  if (before.defined()) states = states + before.unsqueeze(2);
  const Tensor sums = masked_sums(q, k, v) + product(q, states);
  return sums.flatten(2, 3).narrow(2, 0, length);
}

/// Keys [first, first + length) of both, as one sum [B, H, D, Dv].
Tensor summed(const Tensor& keys, const Tensor& values, std::int64_t first, std::int64_t length) {
  return product(keys.narrow(2, first, length).transpose(-2, -1), values.narrow(2, first, length));
}

}  // namespace

Tensor linear_sums(const Tensor& queries, const Tensor& keys, const Tensor& values,
                   const Visibility& visible) {
  check(visible);
  const at::ScalarType wide = at::toOpMathType(queries.scalar_type());
  const Tensor q = queries.to(wide), v = values.to(wide);
  Tensor k = keys.to(wide);
  if (visible.key_valid.defined()) {
    k = k.masked_fill(visible.key_valid.logical_not().unsqueeze(1).unsqueeze(-1), 0);
  }
  const std::int64_t rows = q.size(2), columns = k.size(2);
  if (!visible.causal || rows == 1) return product(q, summed(k, v, 0, columns));
  const std::int64_t both = std::min(rows, columns), earlier = columns - both;
  const Tensor sums =
      causal_sums(q.narrow(2, rows - both, both), k.narrow(2, earlier, both),
                  v.narrow(2, earlier, both), earlier > 0 ? summed(k, v, 0, earlier) : Tensor());
  // Queries before the first key see nothing.
  return rows == both ? sums : at::constant_pad_nd(sums, {0, 0, rows - both, 0});
}

Tensor linear_sums_behind(const Tensor& queries, const Tensor& keys, const Tensor& values,
                          Tensor& state) {
  const at::ScalarType wide = at::toOpMathType(queries.scalar_type());
  const Tensor q = queries.to(wide), k = keys.to(wide), v = values.to(wide);
  Tensor sums = causal_sums(q, k, v, state);
  const Tensor added = summed(k, v, 0, k.size(2));
  state = state.defined() ? state + added : added;
  return sums;
}

Tensor with_ones(const Tensor& values) {
  const Tensor ones = at::ones({1, 1, 1, 1}, values.options())
                          .expand({values.size(0), values.size(1), values.size(2), 1});
  return at::cat({values, ones}, -1);
}

Tensor elu_plus_one(const Tensor& x) { return x.clamp_max(0).exp_() + x.relu(); }

Tensor visible_counts(const Visibility& visible, std::int64_t queries, std::int64_t keys,
                      const at::Device& device) {
  check(visible);
  const at::TensorOptions options = at::TensorOptions().dtype(at::kLong).device(device);
  const Tensor& valid = visible.key_valid;
  const Tensor up_to =  // [B or 1, Lk]: keys 0 to j
      valid.defined() ? valid.cumsum(1) : at::arange(1, keys + 1, options).unsqueeze(0);
  if (!visible.causal || queries == 1)
    return up_to.narrow(1, keys - 1, 1).unsqueeze(1).unsqueeze(-1);
  const std::int64_t both = std::min(queries, keys);
  const Tensor seen = up_to.narrow(1, keys - both, both);
  return at::constant_pad_nd(seen, {queries - both, 0}).unsqueeze(1).unsqueeze(-1);
}

}  // namespace attnlab
