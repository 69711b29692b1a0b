// A head of small attention, forward and backward: everything in one piece of scratch.
//
//   P = softmax(scale * Q K̄^T),   Y = drop(P) V
//
// Heads with one query have loops of their own: framework/nn/kernels/single_query-inl.h.
#include <hwy/highway.h>

#include "framework/nn/kernels/headwise.h"
#include "framework/nn/kernels/relative-inl.h"
#include "framework/nn/kernels/rounded_product-inl.h"
#include "framework/nn/kernels/softmax-inl.h"
#include "framework/nn/kernels/unit_row-inl.h"

#if defined(ATTNLAB_SMALL_HEAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTNLAB_SMALL_HEAD_INL_H_
#undef ATTNLAB_SMALL_HEAD_INL_H_
#else
#define ATTNLAB_SMALL_HEAD_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

/// Where a head's weights lie: kept [B * H, Lq, padded Lk], or in scratch.
template <class T>
HWY_INLINE Matrix<T> weights_of(const HeadwisePlan<T>& in, T* kept, std::int64_t head) {
  return {kept + head * in.queries * padded<T>(in.keys), padded<T>(in.keys)};
}

/// scale * K̄^T, in the numbers that `unit` would give.
/// @param room  for K̄ [Lk, D], where keys come to unit length
template <class P, class T>
HWY_INLINE void pack_keys(const HeadwisePlan<T>& in, std::int64_t head, P kt, Scratch<T> room) {
  Matrix<const T> k = in.k.at(head);
  if (in.unit) {
    const Matrix<T> unit = room.matrix(in.keys, in.dim);
    normalise_rows(k, unit, Matrix<T>{in.inverse + head * in.keys, 1}, in.keys, in.dim, in.eps);
    k = unit.fixed();
  }
  pack_transposed(k, kt, in.dim, in.keys, in.scale);
}

/// Queries [first, past) and what they see among them: whole panels of keys.
struct SeenBlock {
  std::int64_t first, past;
  KeyRange keys;

  HWY_INLINE std::int64_t queries() const { return past - first; }
  HWY_INLINE std::int64_t count() const { return keys.end - keys.begin; }
  HWY_INLINE PairBlock pairs(std::int64_t head) const {
    return {head, first, queries(), keys.begin, count()};
  }
};

/// Queries of a block, where rules hide keys: a few tiles.
inline constexpr std::int64_t kSeenRows = 2 * kTileRows;

/// Queries of a block. Without rules there is one block.
template <class T>
HWY_INLINE std::int64_t seen_rows(const HeadwisePlan<T>& in) {
  return in.rules.any() ? std::min<std::int64_t>(kSeenRows, in.queries) : in.queries;
}

/// Calls work(block) for all queries.
template <class T, class Work>
HWY_INLINE void each_seen_block(const HeadwisePlan<T>& in, const Work& work) {
  const std::int64_t step = seen_rows(in);
  for (std::int64_t first = 0; first < in.queries; first += step) {
    const std::int64_t past = std::min(first + step, in.queries);
    work(SeenBlock{first, past, keys_seen(in, first, past)});
  }
}

/// C = A^T B over the queries that see a row's key. @param a  [Lq, Lk] @param b  [Lq, columns]
/// @param c  [Lk, columns]
template <class P, class T>
HWY_INLINE void multiply_seen(const HeadwisePlan<T>& in, Matrix<const T> a, P b, Matrix<T> c,
                              std::int64_t columns) {
  const std::int64_t step = in.rules.any() ? kSeenRows : std::max<std::int64_t>(1, in.keys);
  std::int64_t begin = 0, end = in.queries;
  for (std::int64_t first = 0; first < in.keys; first += step) {
    const std::int64_t past = std::min(first + step, in.keys);
    if (in.rules.any()) {  // both only rise from one block of keys to the next
      const auto seen = [&](std::int64_t i) { return in.rules.seen(i, in.queries, in.keys); };
      while (begin < in.queries && seen(begin).end <= first) ++begin;
      for (end = std::max(begin, first == 0 ? 0 : end); end < in.queries;) {
        if (seen(end).begin >= past) break;
        ++end;
      }
    }
    // Panels may begin before `begin`: those queries see none of these keys, and have zeros there.
    const std::int64_t from = begin / P::kStep * P::kStep;
    multiply(a.from_row(from).transposed().from_row(first), b.from_row(from), c.from_row(first),
             past - first, end - from, columns, false);
  }
}

/// Logits of a block's rows to weights, in place; what they do not see becomes zeros, as a row does
/// that sees nothing.
template <class T>
HWY_INLINE void weigh(const HeadwisePlan<T>& in, std::int64_t head, const SeenBlock& at,
                      Matrix<T> rows) {
  const std::int64_t whole = whole_vectors<T>(in.keys);
  for (std::int64_t i = at.first; i < at.past; ++i) {
    T* const row = rows.at(i, 0);
    T* const seen = row + at.keys.begin;
    const std::int64_t past = at.keys.begin + whole_vectors<T>(at.count());
    std::fill(row, seen, T(0));
    if (past < whole) std::fill(row + past, row + whole, T(0));
    if (at.count() > 0 && hide(in, head, i, at.keys.begin, seen, at.count())) {
      softmax_row(seen, at.count());
    } else {
      std::fill(seen, std::max(seen, row + std::min(past, whole)), T(0));
    }
  }
}

/// y = x times the factors of dropout, [Lq, Lk] without padding; y may be x.
template <class T>
HWY_INLINE void multiply_by(const HeadwisePlan<T>& in, const T* factors, Matrix<const T> x,
                            Matrix<T> y) {
  for (std::int64_t i = 0; i < in.queries; ++i) {
    const T* by = factors + i * in.keys;  // beyond the row's end: the next row's, or room
    for (std::int64_t j = 0; j < in.keys; j += kLanes<T>) {
      store<T>(hn::Mul(load(x.at(i, j), Whole()), load(by + j, Whole())), y.at(i, j), Whole());
    }
  }
}

/// The factors of a head's weights. Room behind them is zeroed: `multiply_by` reads whole vectors.
template <class T>
HWY_INLINE const T* factors_of(const HeadwisePlan<T>& in, std::int64_t head, Scratch<T>& room) {
  const std::int64_t count = in.queries * in.keys;
  T* factors = room.take(count + kPadding<T>);
  dropout_factors(factors, head * count, count, in.drops);
  std::fill_n(factors + count, kPadding<T>, T(0));
  return factors;
}

/// @tparam P     the panels of its products, here and below: rounded ones or not
/// @param kept  weights to fill, or null
template <class P, class T>
HWY_INLINE void attend_head(const HeadwisePlan<T>& in, std::int64_t i, T* kept, Heads<T> out,
                            Scratch<T> room) {
  const P kt = panels<P>(room, in.dim, in.keys), v = panels<P>(room, in.keys, in.channels);
  pack_keys(in, i, kt, room);
  Matrix<T> p = kept != nullptr ? weights_of(in, kept, i) : room.matrix(in.queries, in.keys);
  const RelativeRoom<T> relative(in, i, seen_rows(in), in.keys, room);
  each_seen_block(in, [&](const SeenBlock& at) HWY_ATTR {
    multiply(in.q.at(i).from_row(at.first), kt.fixed().from_column(at.keys.begin),
             Matrix<T>{p.at(at.first, at.keys.begin), p.row}, at.queries(), in.dim, at.count(),
             true);
    if (in.relative() && at.count() > 0) {
      add_relative(in, at.pairs(i), relative, Matrix<T>{p.at(at.first, at.keys.begin), p.row});
    }
    weigh(in, i, at, p);
  });
  if (in.drops.p > 0) {
    const Matrix<T> dropped = room.matrix(in.queries, in.keys);
    multiply_by(in, factors_of(in, i, room), p.fixed(), dropped);
    p = dropped;
  }
  pack(in.v.at(i), v, in.keys, in.channels);
  each_seen_block(in, [&](const SeenBlock& at) HWY_ATTR {
    multiply(Matrix<T>{p.at(at.first, at.keys.begin), p.row}.fixed(),
             v.fixed().from_row(at.keys.begin), out.at(i).from_row(at.first), at.queries(),
             at.count(), in.channels, false);
  });
}

/// What the logits' gradient is for relative positions.
/// @param dl  [Lq, Lk], times the scale
template <class T>
HWY_INLINE void differentiate_relative(const HeadwisePlan<T>& in, std::int64_t i,
                                       Matrix<const T> dl, const HeadwiseGradients<T>& to,
                                       Scratch<T> room) {
  if (!in.relative()) return;
  const auto q = panels<Panels<T>>(room, in.queries, in.dim);
  const auto k = panels<Panels<T>>(room, in.distances(), in.dim);
  pack(in.relative_q.at(i), q, in.queries, in.dim);
  pack(in.relative_k.at(i), k, in.distances(), in.dim);
  const std::int64_t row = distance_row<T>(seen_rows(in), in.keys);
  const Matrix<T> moved{room.take(seen_rows(in) * row), row};
  const Matrix<T> dk = room.matrix(in.distances(), in.dim);
  std::fill_n(dk.data, in.distances() * dk.row, T(0));
  const Matrix<T> dq = to.relative_q.at(i);
  each_seen_block(in, [&](const SeenBlock& at) HWY_ATTR {
    if (at.count() == 0) {
      for (std::int64_t r = at.first; r < at.past; ++r) std::fill_n(dq.at(r, 0), in.dim, T(0));
      return;
    }
    const Matrix<const T> seen{dl.at(at.first, at.keys.begin), dl.row};
    const Distances<T> among = by_distance(in, at.pairs(i), seen, moved);
    multiply(moved.fixed(), k.fixed().from_row(among.begin), dq.from_row(at.first), at.queries(),
             among.count, in.dim, false);
    add_multiplied(moved.fixed().transposed(), q.fixed().from_row(at.first),
                   dk.from_row(among.begin), among.count, at.queries(), in.dim);
  });
  const Matrix<T> out = to.relative_k.at(i);
  for (std::int64_t r = 0; r < in.distances(); ++r) scale(T(1), dk.at(r, 0), out.at(r, 0), in.dim);
}

/// dV = drop(P)^T dY, dL = s P (dP - <dP, P>), dQ = dL K̄, dK̄ = dL^T Q.
template <class P, class T>
HWY_INLINE void differentiate_head(const HeadwisePlan<T>& in, std::int64_t i, T* weights,
                                   const HeadwiseGradients<T>& to, Scratch<T> room) {
  const P dy = panels<P>(room, in.queries, in.channels);
  const P vt = panels<P>(room, in.channels, in.keys);
  const Matrix<T> dl = room.matrix(in.queries, in.keys);
  const Matrix<T> p = weights_of(in, weights, i);
  pack(to.out.at(i), dy, in.queries, in.channels);  // first: it also brings the rows to cache
  pack_transposed(in.v.at(i), vt, in.channels, in.keys);
  each_seen_block(in, [&](const SeenBlock& at) HWY_ATTR {
    if (at.count() < in.keys) {
      for (std::int64_t r = at.first; r < at.past; ++r) {
        std::fill_n(dl.at(r, 0), padded<T>(in.keys), T(0));
      }
    }
    multiply(to.out.at(i).from_row(at.first), vt.fixed().from_column(at.keys.begin),
             Matrix<T>{dl.at(at.first, at.keys.begin), dl.row}, at.queries(), in.channels,
             at.count(), true);
  });
  Matrix<T> kept = p;
  if (in.drops.p > 0) {
    kept = room.matrix(in.queries, in.keys);
    const T* factors = factors_of(in, i, room);
    multiply_by(in, factors, p.fixed(), kept);
    multiply_by(in, factors, dl.fixed(), dl);
  }
  multiply_seen(in, kept.fixed(), dy.fixed(), to.v.at(i), in.channels);
  for (std::int64_t r = 0; r < in.queries; ++r) {
    softmax_gradient_row(p.at(r, 0), dl.at(r, 0), in.keys, in.scale);
  }
  differentiate_relative(in, i, dl.fixed(), to, room);
  const P k = panels<P>(room, in.keys, in.dim), q = panels<P>(room, in.queries, in.dim);
  const T* inverse = in.unit ? in.inverse + i * in.keys : nullptr;
  pack(in.k.at(i), k, in.keys, in.dim, inverse);
  each_seen_block(in, [&](const SeenBlock& at) HWY_ATTR {
    multiply(Matrix<T>{dl.at(at.first, at.keys.begin), dl.row}.fixed(),
             k.fixed().from_row(at.keys.begin), to.q.at(i).from_row(at.first), at.queries(),
             at.count(), in.dim, false);
  });
  pack(in.q.at(i), q, in.queries, in.dim);
  const Matrix<T> dk = to.k.at(i);
  multiply_seen(in, dl.fixed(), q.fixed(), dk, in.dim);
  if (!in.unit) return;
  const Matrix<T> unit = room.matrix(in.keys, in.dim);
  const Matrix<const T> given = in.k.at(i);
  for (std::int64_t j = 0; j < in.keys; ++j) {
    scale(inverse[j], given.at(j, 0), unit.at(j, 0), in.dim);
    differentiate_row(unit.at(j, 0), inverse[j], dk.at(j, 0), dk.at(j, 0), in.dim, in.eps);
  }
}

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
