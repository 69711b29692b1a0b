// A share of a head of long attention, block by block: see block_attention.h.
//
// Heads are cut into shares where there are fewer of them than threads: forward by blocks of
// queries, backward by blocks of keys, each share with sums of its own for the queries' gradient.
#include <hwy/highway.h>

#include <cmath>

#include "framework/nn/kernels/block_sizes.h"
#include "framework/nn/kernels/headwise.h"
#include "framework/nn/kernels/relative-inl.h"
#include "framework/nn/kernels/rounded_product-inl.h"
#include "framework/nn/kernels/softmax-inl.h"
#include "framework/nn/kernels/terms-inl.h"
#include "framework/nn/kernels/unit_row-inl.h"

#if defined(ATTNLAB_BLOCK_HEAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTNLAB_BLOCK_HEAD_INL_H_
#undef ATTNLAB_BLOCK_HEAD_INL_H_
#else
#define ATTNLAB_BLOCK_HEAD_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

/// scale * K̄^T for keys [first, first + count). @param unit  room for K̄ [count, D]
/// @param inverse  [count], filled, where keys come to unit length
template <class P, class T>
HWY_INLINE void pack_key_block(const HeadwisePlan<T>& in, std::int64_t head, std::int64_t first,
                               std::int64_t count, P kt, Matrix<T> unit, T* inverse) {
  Matrix<const T> k = in.k.at(head).from_row(first);
  if (in.unit) {
    normalise_rows(k, unit, Matrix<T>{inverse, 1}, count, in.dim, in.eps);
    k = unit.fixed();
  }
  pack_transposed(k, kt, in.dim, count, in.scale);
}

/// A block of logits or weights.
template <class T>
struct Block : PairBlock {
  /// What dropout multiplies row i by. @param factors  room for them
  HWY_INLINE void factors(const HeadwisePlan<T>& in, std::int64_t i, T* factors) const {
    const std::int64_t place = (head * in.queries + query + i) * in.keys + key;
    dropout_factors(factors, place, columns, in.drops);
  }
};

/// What the rows of a block of queries have gathered so far.
template <class T>
struct Gathered {
  T top[kQueryBlock], sum[kQueryBlock];
  bool sees[kQueryBlock];  ///< whether a key was seen at all
  Matrix<T> values;        ///< sum_j e^(l_j - top) drop_j v_j
};

/// e^(x - top) in place, with what was gathered before brought to the new top.
template <class T>
HWY_INLINE void gather_row(const HeadwisePlan<T>& in, const Block<T>& at, std::int64_t i, T* row,
                           Gathered<T>& to) {
  complete_logits<T>(in, at.head, at.query + i, at.key, row, at.columns, nullptr);
  HWY_ALIGN T signs[kKeyBlock];
  const bool has_signs = in.signs;
  if (has_signs) split_signs(row, at.columns, signs);
  if (!hide(in, at.head, at.query + i, at.key, row, at.columns)) {
    std::fill_n(row, at.columns, T(0));
    return;
  }
  to.sees[i] = true;
  const T before = to.top[i], found = largest_in(row, at.columns);
  const T top = found > before ? found : before;
  const T sum = exponentiate(row, at.columns, top);
  if (top != before) {
    const T shrink = hn::GetLane(exponential(all(before - top)));
    to.top[i] = top;
    to.sum[i] *= shrink;
    scale(shrink, to.values.at(i, 0), to.values.at(i, 0), whole_vectors<T>(in.channels));
  }
  to.sum[i] += sum;
  if (has_signs) multiply_row(row, signs, at.columns);
}

/// The weights of row i by a rule, in place of products.
template <class T>
HWY_INLINE void weigh_by_rule(const HeadwisePlan<T>& in, const Block<T>& at, std::int64_t i,
                              T* row) {
  const std::int64_t query = at.query + i;
  complete_logits<T>(in, at.head, query, at.key, row, at.columns, nullptr);
  in.rule->weigh(row, at.columns, rule_factor(in, at.head, query));
  hide(in, at.head, query, at.key, row, at.columns, T(0));
}

template <class T>
HWY_INLINE void drop_row(const HeadwisePlan<T>& in, const Block<T>& at, std::int64_t i, T* row) {
  HWY_ALIGN T factors[kKeyBlock];
  at.factors(in, i, factors);
  each_vector<T>(at.columns, [&](std::int64_t j, auto part) HWY_ATTR {
    store<T>(hn::Mul(load(row + j, part), load(factors + j, part)), row + j, part);
  });
}

/// The outputs of a block of queries, and their rows' numbers for the gradient (by a rule, nothing
/// of meaning).
/// @param rows  [Lq, 2] of the head, or null
template <class T>
HWY_INLINE void finish_rows(const HeadwisePlan<T>& in, std::int64_t query, std::int64_t count,
                            const Gathered<T>& from, Matrix<T> out, T* rows) {
  for (std::int64_t i = 0; i < count; ++i) {
    T inverse = from.sees[i] ? 1 / from.sum[i] : T(0);
    if (in.rule != nullptr) inverse = T(1);
    scale(inverse, from.values.at(i, 0), out.at(query + i, 0), in.channels);
    if (rows == nullptr) continue;
    rows[2 * (query + i)] = from.sees[i] ? from.top[i] : T(0);
    rows[2 * (query + i) + 1] = inverse;
  }
}

/// Every `shares`-th block of queries of a head, from block `share` on.
/// @tparam P    the panels of its products, here and below: rounded ones or not
/// @param rows  [B * H, Lq, 2], or null
template <class P, class T>
HWY_INLINE void attend_share(const HeadwisePlan<T>& in, std::int64_t head, std::int64_t share,
                             std::int64_t shares, Heads<T> out, T* rows, Scratch<T> room) {
  const P kt = panels<P>(room, in.dim, in.keys), v = panels<P>(room, in.keys, in.channels);
  const Matrix<T> p{room.take(kQueryBlock * kBlockRow<T>), kBlockRow<T>};
  Gathered<T> gathered;
  gathered.values = room.matrix(kQueryBlock, in.channels);
  const Matrix<T> unit = in.unit ? room.matrix(kKeyBlock, in.dim) : Matrix<T>{};
  const RelativeRoom<T> relative(in, head, kQueryBlock, kKeyBlock, room);
  // A sink is a key that every row has seen before all others, and that has no value.
  const bool sinks = in.sink.data != nullptr;
  const T first_top = sinks ? *in.sink.at(head).data : kHiddenLogit<T>;
  T inverse[kKeyBlock];
  for (std::int64_t j = 0; j < in.keys; j += kKeyBlock) {
    const std::int64_t count = std::min(kKeyBlock, in.keys - j);
    pack_key_block(in, head, j, count, kt.from_column(j), unit, inverse);
    if (in.unit && share == 0) std::copy_n(inverse, count, in.inverse + head * in.keys + j);
  }
  pack(in.v.at(head), v, in.keys, in.channels);
  for (std::int64_t i = share * kQueryBlock; i < in.queries; i += shares * kQueryBlock) {
    const std::int64_t count = std::min(kQueryBlock, in.queries - i);
    std::fill_n(gathered.top, count, first_top);
    std::fill_n(gathered.sum, count, sinks ? T(1) : T(0));
    std::fill_n(gathered.sees, count, false);
    std::fill_n(gathered.values.data, count * gathered.values.row, T(0));
    const KeyRange seen = keys_seen(in, i, i + count);
    for (std::int64_t j = seen.begin; j < seen.end; j += kKeyBlock) {
      const Block<T> at{head, i, count, j, std::min(kKeyBlock, seen.end - j)};
      multiply(in.q.at(head).from_row(i), kt.from_column(j).fixed(), p, count, in.dim, at.columns,
               true);
      if (in.relative()) add_relative(in, at, relative, p);
      for (std::int64_t r = 0; r < count; ++r) {
        if (in.rule != nullptr) {
          weigh_by_rule(in, at, r, p.at(r, 0));
        } else {
          gather_row(in, at, r, p.at(r, 0), gathered);
        }
        if (in.drops.p > 0) drop_row(in, at, r, p.at(r, 0));
      }
      add_multiplied(p.fixed(), v.from_row(j).fixed(), gathered.values, count, at.columns,
                     in.channels);
    }
    finish_rows(in, i, count, gathered, out.at(head),
                rows == nullptr ? nullptr : rows + 2 * head * in.queries);
  }
}

/// Room of a share of the backward pass.
template <class P, class T>
struct BackwardRoom {
  P q, dy;           ///< of the whole head
  P kt, vt, k;       ///< of a block of keys
  Matrix<T> p, dl;   ///< of a block
  Matrix<T> dk, dv;  ///< of a block of keys
  Matrix<T> unit;    ///< K̄ of a block of keys
  T* along;          ///< <dY_i, Y_i>
  RelativeRoom<T> relative;
  Panels<T> relative_q, relative_k;    ///< of the whole head
  Matrix<T> dq;                        ///< [Lq, D], sums
  Matrix<T> relative_dq, relative_dk;  ///< [Lq, D], [Lq + Lk - 1, D], sums
  /// Sums of the logits' gradient, of the whole head but `by_key`, of a block of keys; null: not
  /// wanted.
  T *by_query = nullptr, *by_key = nullptr, *by_distance = nullptr;

  BackwardRoom(const HeadwisePlan<T>& in, std::int64_t head, const HeadwiseGradients<T>& to,
               T* sums, Scratch<T> room)
      : q(panels<P>(room, in.queries, in.dim)),
        dy(panels<P>(room, in.queries, in.channels)),
        kt(panels<P>(room, in.dim, kKeyBlock)),
        vt(panels<P>(room, in.channels, kKeyBlock)),
        k(panels<P>(room, kKeyBlock, in.dim)),
        p{room.take(kQueryBlock * kBlockRow<T>), kBlockRow<T>},
        dl{room.take(kQueryBlock * kBlockRow<T>), kBlockRow<T>},
        dk(room.matrix(kKeyBlock, in.dim)),
        dv(room.matrix(kKeyBlock, in.channels)),
        unit(room.matrix(kKeyBlock, in.dim)),
        along(room.take(in.queries)),
        relative(in, head, kQueryBlock, kKeyBlock, room),
        relative_q{nullptr, in.queries},
        relative_k{nullptr, in.distances()},
        dq{sums, padded<T>(in.dim)},
        relative_dq{dq.at(in.queries, 0), dq.row},
        relative_dk{dq.at(2 * in.queries, 0), dq.row} {
    T* next = sums + rows_of_sums(in) * dq.row;
    if (to.by_query != nullptr) {
      by_query = next;
      next += padded<T>(in.queries);
    }
    if (to.by_distance != nullptr) by_distance = next;
    if (to.by_key != nullptr) by_key = room.take(kKeyBlock);
    if (!in.relative()) return;
    relative_q.data = room.take(panel_room<T>(in.queries, in.dim));
    relative_k.data = room.take(panel_room<T>(in.distances(), in.dim));
    pack(in.relative_q.at(head), relative_q, in.queries, in.dim);
    pack(in.relative_k.at(head), relative_k, in.distances(), in.dim);
  }

  bool sums_logits() const {
    return by_query != nullptr || by_key != nullptr || by_distance != nullptr;
  }
};

/// What a block adds to the gradients of relative positions; dl stands in `room.dl`.
template <class P, class T>
HWY_INLINE void differentiate_relative(const HeadwisePlan<T>& in, const Block<T>& at,
                                       const BackwardRoom<P, T>& room) {
  const Distances<T> among = by_distance(in, at, room.dl.fixed(), room.relative.logits);
  const Matrix<const T> dl = room.relative.logits.fixed();
  add_multiplied(dl, room.relative_k.from_row(among.begin).fixed(),
                 room.relative_dq.from_row(at.query), at.rows, among.count, in.dim);
  add_multiplied(dl.transposed(), room.relative_q.from_row(at.query).fixed(),
                 room.relative_dk.from_row(among.begin), among.count, at.rows, in.dim);
}

/// Row i of a block: weights, times dropout, in place of complete logits; the gradient of scaled
/// products in place of the dropped weights' one.
/// @param rows   the head's
/// @param dbias  filled with the complete logits' gradient; null: not wanted
template <class T>
HWY_INLINE void differentiate_softmax_row(const HeadwisePlan<T>& in, const Block<T>& at,
                                          std::int64_t i, const T* rows, T along, T* p, T* dl,
                                          T* dbias) {
  const T top = rows[2 * (at.query + i)], inverse = rows[2 * (at.query + i) + 1];
  if (inverse == 0 || !hide(in, at.head, at.query + i, at.key, p, at.columns)) {
    std::fill_n(p, at.columns, T(0));
    std::fill_n(dl, at.columns, T(0));
    if (dbias != nullptr) std::fill_n(dbias, at.columns, T(0));
    return;
  }
  HWY_ALIGN T factors[kKeyBlock];
  const bool drops = in.drops.p > 0;
  if (drops) at.factors(in, i, factors);
  const Vec<T> highest = all(top), by = all(inverse), shift = all(along), scale = all(in.scale);
  each_vector<T>(at.columns, [&](std::int64_t j, auto part) HWY_ATTR {
    const Vec<T> weight = hn::Mul(exponential(hn::Sub(load(p + j, part), highest)), by);
    Vec<T> kept = weight, gradient = load(dl + j, part);
    if (drops) {
      const Vec<T> factor = load(factors + j, part);
      kept = hn::Mul(kept, factor);
      gradient = hn::Mul(gradient, factor);
    }
    store<T>(kept, p + j, part);
    const Vec<T> away = hn::Sub(gradient, shift);
    store<T>(hn::Mul(hn::Mul(weight, scale), away), dl + j, part);
    if (dbias != nullptr) store<T>(hn::Mul(weight, away), dbias + j, part);
  });
}

/// The same for weights with their logits' signs: d|l| = p (sign dw - <dY, Y>), dl = sign d|l|.
template <class T>
HWY_INLINE void differentiate_signed_row(const HeadwisePlan<T>& in, const Block<T>& at,
                                         std::int64_t i, const T* rows, T along, T* p, T* dl,
                                         T* dbias) {
  HWY_ALIGN T signs[kKeyBlock];
  split_signs(p, at.columns, signs);
  multiply_row(dl, signs, at.columns);
  differentiate_softmax_row(in, at, i, rows, along, p, dl, dbias);
  multiply_row(p, signs, at.columns);
  multiply_row(dl, signs, at.columns);
  if (dbias != nullptr) multiply_row(dbias, signs, at.columns);
}

/// The same for weights by a rule.
template <class T>
HWY_INLINE void differentiate_rule_row(const HeadwisePlan<T>& in, const Block<T>& at,
                                       std::int64_t i, T* p, T* dl, T* dbias) {
  const std::int64_t query = at.query + i;
  HWY_ALIGN T factors[kKeyBlock];
  const bool drops = in.drops.p > 0;
  if (drops) {
    at.factors(in, i, factors);
    multiply_row(dl, factors, at.columns);
  }
  in.rule->differentiate(p, dl, at.columns, rule_factor(in, at.head, query));
  hide(in, at.head, query, at.key, p, at.columns, T(0));
  hide(in, at.head, query, at.key, dl, at.columns, T(0));
  if (drops) multiply_row(p, factors, at.columns);
  if (dbias != nullptr) std::copy_n(dl, at.columns, dbias);
  scale(in.scale, dl, dl, at.columns);
}

/// Row i of a block, from scaled products, with all that belongs to the logits.
/// @param dbias  of the bias by pair, or null
template <class P, class T>
HWY_INLINE void differentiate_block_row(const HeadwisePlan<T>& in, const Block<T>& at,
                                        std::int64_t i, const T* rows, T* dbias,
                                        const BackwardRoom<P, T>& room) {
  const std::int64_t query = at.query + i, n = at.columns;
  T* const p = room.p.at(i, 0);
  T* const dl = room.dl.at(i, 0);
  HWY_ALIGN T slopes[kKeyBlock];
  HWY_ALIGN T numbers[kKeyBlock];
  const bool caps = in.cap > 0;
  complete_logits<T>(in, at.head, query, at.key, p, n, caps ? slopes : nullptr);
  if (dbias == nullptr && room.sums_logits()) dbias = numbers;
  if (in.rule != nullptr) {
    differentiate_rule_row(in, at, i, p, dl, dbias);
  } else if (in.signs) {
    differentiate_signed_row(in, at, i, rows, room.along[query], p, dl, dbias);
  } else {
    differentiate_softmax_row(in, at, i, rows, room.along[query], p, dl, dbias);
  }
  if (room.by_query != nullptr) room.by_query[query] += sum_of_row(dbias, n);
  if (room.by_key != nullptr) add_scaled(room.by_key, T(1), dbias, n);
  if (room.by_distance != nullptr) {
    add_scaled(room.by_distance + (in.queries - 1 - query + at.key), T(1), dbias, n);
  }
  if (caps) multiply_row(dl, slopes, n);
}

/// What a block adds to the three gradients.
template <class P, class T>
HWY_INLINE void differentiate_block(const HeadwisePlan<T>& in, const Block<T>& at, const T* rows,
                                    Matrix<const T> q, Matrix<const T> grad, const Heads<T>& dbias,
                                    const BackwardRoom<P, T>& room) {
  multiply(q, room.kt.fixed(), room.p, at.rows, in.dim, at.columns, true);
  if (in.relative()) {
    add_relative(in, at, room.relative, room.p);
  }
  multiply(grad, room.vt.fixed(), room.dl, at.rows, in.channels, at.columns, true);
  for (std::int64_t r = 0; r < at.rows; ++r) {
    T* const to = dbias.data == nullptr ? nullptr : dbias.at(at.head).at(at.query + r, at.key);
    differentiate_block_row(in, at, r, rows, to, room);
  }
  if (in.relative()) differentiate_relative(in, at, room);
  add_multiplied(room.p.fixed().transposed(), room.dy.from_row(at.query).fixed(), room.dv,
                 at.columns, at.rows, in.channels);
  add_multiplied(room.dl.fixed().transposed(), room.q.from_row(at.query).fixed(), room.dk,
                 at.columns, at.rows, in.dim);
  add_multiplied(room.dl.fixed(), room.k.fixed(), room.dq.from_row(at.query), at.rows, at.columns,
                 in.dim);
}

/// Brings a block of keys to form. @returns 1 / |k| of unit keys, else null.
template <class P, class T>
HWY_INLINE const T* prepare_keys(const HeadwisePlan<T>& in, std::int64_t head, std::int64_t first,
                                 std::int64_t count, const BackwardRoom<P, T>& room) {
  const Matrix<const T> given = in.k.at(head).from_row(first);
  Matrix<const T> k = given;
  const T* inverse = in.unit ? in.inverse + head * in.keys + first : nullptr;
  if (in.unit) {
    for (std::int64_t j = 0; j < count; ++j) {
      scale(inverse[j], given.at(j, 0), room.unit.at(j, 0), in.dim);
    }
    k = room.unit.fixed();
  }
  pack_transposed(k, room.kt, in.dim, count, in.scale);
  pack(k, room.k, count, in.dim);
  pack_transposed(in.v.at(head).from_row(first), room.vt, in.channels, count);
  std::fill_n(room.dk.data, count * room.dk.row, T(0));
  std::fill_n(room.dv.data, count * room.dv.row, T(0));
  if (room.by_key != nullptr) std::fill_n(room.by_key, count, T(0));
  return inverse;
}

/// The gradient of a head's sink: its weight in row i is not its own, so <dY_i, Y_i> is what it
/// takes from the others.
/// @param rows  the head's @param along  <dY_i, Y_i>
template <class T>
HWY_INLINE T differentiate_sink(const HeadwisePlan<T>& in, std::int64_t head, const T* rows,
                                const T* along) {
  const T sink = *in.sink.at(head).data;
  double sum = 0;
  for (std::int64_t i = 0; i < in.queries; ++i) {
    const T inverse = rows[2 * i + 1];
    if (inverse != 0) sum -= double(std::exp(sink - rows[2 * i]) * inverse * along[i]);
  }
  return T(sum);
}

/// Every `shares`-th block of keys of a head, from block `share` on.
/// @param rows  [B * H, Lq, 2]
/// @param out   what was attended
/// @param sums  numbers_of_sums(): the share's part of what is summed over its keys, filled
template <class P, class T>
HWY_INLINE void differentiate_share(const HeadwisePlan<T>& in, std::int64_t head,
                                    std::int64_t share, std::int64_t shares, const T* rows,
                                    Heads<const T> out, const HeadwiseGradients<T>& to, T* sums,
                                    Scratch<T> scratch) {
  const BackwardRoom<P, T> room(in, head, to, sums, scratch);
  const Matrix<const T> q = in.q.at(head), dy = to.out.at(head), y = out.at(head);
  pack(q, room.q, in.queries, in.dim);
  pack(dy, room.dy, in.queries, in.channels);
  for (std::int64_t i = 0; i < in.queries; ++i) {
    room.along[i] = dot(dy.at(i, 0), y.at(i, 0), in.channels);
  }
  const T* const own_rows = rows + 2 * head * in.queries;
  if (share == 0 && to.sink != nullptr) {
    to.sink[head] = differentiate_sink(in, head, own_rows, room.along);
  }
  std::fill_n(sums, numbers_of_sums(in, to), T(0));
  for (std::int64_t j = share * kKeyBlock; j < in.keys; j += shares * kKeyBlock) {
    const std::int64_t columns = std::min(kKeyBlock, in.keys - j);
    const T* inverse = prepare_keys(in, head, j, columns, room);
    for (std::int64_t i = 0; i < in.queries; i += kQueryBlock) {
      const std::int64_t count = std::min(kQueryBlock, in.queries - i);
      const KeyRange seen = keys_seen(in, i, i + count);
      if (seen.end <= j || seen.begin >= j + columns) continue;
      differentiate_block(in, {head, i, count, j, columns}, own_rows, q.from_row(i), dy.from_row(i),
                          to.bias, room);
    }
    if (to.by_key != nullptr) std::copy_n(room.by_key, columns, to.by_key + head * in.keys + j);
    const Matrix<T> dk = to.k.at(head).from_row(j), dv = to.v.at(head).from_row(j);
    for (std::int64_t r = 0; r < columns; ++r) {
      scale(T(1), room.dv.at(r, 0), dv.at(r, 0), in.channels);
      if (in.unit) {
        differentiate_row(room.unit.at(r, 0), inverse[r], room.dk.at(r, 0), dk.at(r, 0), in.dim,
                          in.eps);
      } else {
        scale(T(1), room.dk.at(r, 0), dk.at(r, 0), in.dim);
      }
    }
  }
}

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
