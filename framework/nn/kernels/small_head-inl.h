// A head of small attention, forward and backward: everything in one piece of scratch.
//
//   P = softmax(scale * Q K̄^T),   Y = drop(P) V
//
// Heads with one query have loops of their own: framework/nn/kernels/single_query-inl.h.
#include <hwy/highway.h>

#include "framework/nn/kernels/headwise.h"
#include "framework/nn/kernels/product-inl.h"
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

template <class T>
HWY_INLINE Panels<T> panels(Scratch<T>& room, std::int64_t depth, std::int64_t columns) {
  return {room.take(panel_room<T>(depth, columns)), depth};
}

/// scale * K̄^T, in the numbers that `unit` would give.
/// @param room  for K̄ [Lk, D], where keys come to unit length
template <class T>
HWY_INLINE void pack_keys(const HeadwisePlan<T>& in, std::int64_t head, Panels<T> kt,
                          Scratch<T> room) {
  Matrix<const T> k = in.k.at(head);
  if (in.unit) {
    const Matrix<T> unit = room.matrix(in.keys, in.dim);
    normalise_rows(k, unit, Matrix<T>{in.inverse + head * in.keys, 1}, in.keys, in.dim, in.eps);
    k = unit.fixed();
  }
  pack_transposed(k, kt, in.dim, in.keys, in.scale);
}

/// Logits to weights in place. A row that sees nothing becomes zeros.
template <class T>
HWY_INLINE void weigh(const HeadwisePlan<T>& in, std::int64_t head, Matrix<T> rows) {
  for (std::int64_t i = 0; i < in.queries; ++i) {
    T* row = rows.at(i, 0);
    if (hide(in, head, i, 0, row, in.keys)) {
      softmax_row(row, in.keys);
    } else {
      std::fill_n(row, whole_vectors<T>(in.keys), T(0));
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

/// @param kept  weights to fill, or null
template <class T>
HWY_INLINE void attend_head(const HeadwisePlan<T>& in, std::int64_t i, T* kept, Heads<T> out,
                            Scratch<T> room) {
  const Panels<T> kt = panels(room, in.dim, in.keys), v = panels(room, in.keys, in.channels);
  pack_keys(in, i, kt, room);
  Matrix<T> p = kept != nullptr ? weights_of(in, kept, i) : room.matrix(in.queries, in.keys);
  multiply(in.q.at(i), kt.fixed(), p, in.queries, in.dim, in.keys, true);
  weigh(in, i, p);
  if (in.drops.p > 0) {
    const Matrix<T> dropped = room.matrix(in.queries, in.keys);
    multiply_by(in, factors_of(in, i, room), p.fixed(), dropped);
    p = dropped;
  }
  pack(in.v.at(i), v, in.keys, in.channels);
  multiply(p.fixed(), v.fixed(), out.at(i), in.queries, in.keys, in.channels, false);
}

/// dV = drop(P)^T dY, dL = s P (dP - <dP, P>), dQ = dL K̄, dK̄ = dL^T Q.
template <class T>
HWY_INLINE void differentiate_head(const HeadwisePlan<T>& in, std::int64_t i, T* weights,
                                   const HeadwiseGradients<T>& to, Scratch<T> room) {
  const Panels<T> dy = panels(room, in.queries, in.channels);
  const Panels<T> vt = panels(room, in.channels, in.keys);
  const Matrix<T> dl = room.matrix(in.queries, in.keys);
  const Matrix<T> p = weights_of(in, weights, i);
  pack(to.out.at(i), dy, in.queries, in.channels);  // first: it also brings the rows to cache
  pack_transposed(in.v.at(i), vt, in.channels, in.keys);
  multiply(to.out.at(i), vt.fixed(), dl, in.queries, in.channels, in.keys, true);
  Matrix<T> kept = p;
  if (in.drops.p > 0) {
    kept = room.matrix(in.queries, in.keys);
    const T* factors = factors_of(in, i, room);
    multiply_by(in, factors, p.fixed(), kept);
    multiply_by(in, factors, dl.fixed(), dl);
  }
  multiply(kept.fixed().transposed(), dy.fixed(), to.v.at(i), in.keys, in.queries, in.channels,
           false);
  for (std::int64_t r = 0; r < in.queries; ++r) {
    softmax_gradient_row(p.at(r, 0), dl.at(r, 0), in.keys, in.scale);
  }
  const Panels<T> k = panels(room, in.keys, in.dim), q = panels(room, in.queries, in.dim);
  const T* inverse = in.unit ? in.inverse + i * in.keys : nullptr;
  pack(in.k.at(i), k, in.keys, in.dim, inverse);
  multiply(dl.fixed(), k.fixed(), to.q.at(i), in.queries, in.keys, in.dim, false);
  pack(in.q.at(i), q, in.queries, in.dim);
  const Matrix<T> dk = to.k.at(i);
  multiply(dl.fixed().transposed(), q.fixed(), dk, in.keys, in.queries, in.dim, false);
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
