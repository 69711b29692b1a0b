// A head of small attention with one query, forward and backward: what a class token asks.
//
//   l_j = scale q k̄_j,   p = softmax(l),   y = sum_j drop(p)_j v_j
//
// With one query nothing is used twice, so that nothing is brought to another form first: each row
// of keys and values is read where it lies, once forward and once backward.
// Cost: O(Lk (D + Dv)).
#pragma once

#include <cmath>

#include "framework/nn/kernels/small_head.h"
#include "framework/nn/kernels/small_pieces.h"

namespace attnlab::small {

/// <a, b> of n numbers.
template <class T>
[[gnu::always_inline]] inline T product(const T* a, const T* b, std::int64_t n) {
  PieceSums<T> sums;
  each_piece<T>(
      n, [&](auto kind, std::int64_t i) __attribute__((always_inline)) {
        sums.of(kind) += piece_at<decltype(kind)>(a + i) * piece_at<decltype(kind)>(b + i);
      });
  return sums.total();
}

/// y = sum_j factors[j] x_j. @param x  [rows, columns]
template <class T>
[[gnu::always_inline]] inline void weighted_sum(const T* factors, Matrix<const T> x,
                                                std::int64_t rows, std::int64_t columns, T* y) {
  each_piece<T>(
      columns, [&](auto kind, std::int64_t i) __attribute__((always_inline)) {
        typename decltype(kind)::Piece sum{};
        for (std::int64_t j = 0; j < rows; ++j) {
          sum += factors[j] * piece_at<decltype(kind)>(x.at(j, i));
        }
        piece_at<decltype(kind)>(y + i) = sum;
      });
}

/// y = a x
template <class T>
[[gnu::always_inline]] inline void scale(T a, const T* x, T* y, std::int64_t n) {
  each_piece<T>(
      n, [&](auto kind, std::int64_t i) __attribute__((always_inline)) {
        piece_at<decltype(kind)>(y + i) = a * piece_at<decltype(kind)>(x + i);
      });
}

/// y = a x + b z
template <class T>
[[gnu::always_inline]] inline void combine(T a, const T* x, T b, const T* z, T* y, std::int64_t n) {
  each_piece<T>(
      n, [&](auto kind, std::int64_t i) __attribute__((always_inline)) {
        using Kind = decltype(kind);
        piece_at<Kind>(y + i) = a * piece_at<Kind>(x + i) + b * piece_at<Kind>(z + i);
      });
}

template <class T>
[[gnu::always_inline]] inline bool dense_rows(const Plan<T>& in) {
  return in.queries == 1 && in.q.column == 1 && in.k.column == 1 && in.v.column == 1;
}

/// Whether these loops can be used: one query, and rows whose numbers are neighbours.
template <class T>
[[gnu::always_inline]] inline bool has_single_query(const Plan<T>& in, const Heads<T>& out) {
  return dense_rows(in) && out.column == 1;
}
template <class T>
[[gnu::always_inline]] inline bool has_single_query(const Plan<T>& in, const Gradients<T>& to) {
  return dense_rows(in) && to.out.column == 1;
}

template <class T>
[[gnu::always_inline]] inline void attend_query(const Plan<T>& in, std::int64_t i, Heads<T> out,
                                                Scratch<T> room) {
  const T* const q = in.q.at(i).data;
  const Matrix<const T> k = in.k.at(i);
  const Matrix<T> p = in.weights != nullptr ? in.weights_of(i) : room.matrix(1, in.keys);
  for (std::int64_t j = 0; j < in.keys; ++j) {
    if (!in.unit) {
      p.data[j] = in.scale * product(q, k.at(j, 0), in.dim);
      continue;
    }
    const T norm = std::sqrt(product(k.at(j, 0), k.at(j, 0), in.dim));
    T& inverse = in.inverse[i * in.keys + j];
    inverse = rows::inverse_of(norm, T(in.eps));
    p.data[j] = in.scale * (product(q, k.at(j, 0), in.dim) * inverse);
  }
  weigh(in, i, p);
  const T* weights = p.data;
  if (in.drops.p > 0) {
    const Matrix<T> kept = room.matrix(1, in.keys);
    multiply_by(in, factors_of(in, i, room), p.fixed(), kept);
    weights = kept.data;
  }
  weighted_sum(weights, in.v.at(i), in.keys, in.channels, out.at(i).data);
}

/// dv_j = drop(p)_j dy,  dl_j = scale p_j (dp_j - <dp, p>),  dq = sum_j dl_j k̄_j,
/// dk_j = dl_j (q - k̄_j <q, k̄_j>) / |k_j| of unit keys, else dl_j q.
template <class T>
[[gnu::always_inline]] inline void differentiate_query(const Plan<T>& in, std::int64_t i,
                                                       const Gradients<T>& to, Scratch<T> room) {
  const T* const q = in.q.at(i).data;
  const T* const dy = to.out.at(i).data;
  const Matrix<const T> k = in.k.at(i), v = in.v.at(i);
  const Matrix<T> p = in.weights_of(i), dl = room.matrix(1, in.keys), dk = to.k.at(i);
  const T* kept = p.data;
  for (std::int64_t j = 0; j < in.keys; ++j) dl.data[j] = product(dy, v.at(j, 0), in.channels);
  std::fill(dl.data + in.keys, dl.data + padded<T>(in.keys), T(0));
  if (in.drops.p > 0) {
    const T* factors = factors_of(in, i, room);
    const Matrix<T> dropped = room.matrix(1, in.keys);
    multiply_by(in, factors, p.fixed(), dropped);
    multiply_by(in, factors, dl.fixed(), dl);
    kept = dropped.data;
  }
  const Matrix<T> dv = to.v.at(i);
  for (std::int64_t j = 0; j < in.keys; ++j) scale(kept[j], dy, dv.at(j, 0), in.channels);
  softmax_gradient_row(p.data, dl.data, in.keys, in.scale);
  if (!in.unit) {
    weighted_sum<T>(dl.data, k, in.keys, in.dim, to.q.at(i).data);
    for (std::int64_t j = 0; j < in.keys; ++j) scale(dl.data[j], q, dk.at(j, 0), in.dim);
    return;
  }
  const T* const inverse = in.inverse + i * in.keys;
  const T below = rows::inverse_of(T(0), T(in.eps));  // a key under the floor: times a constant
  for (std::int64_t j = 0; j < in.keys; ++j) {
    const T by = dl.data[j] * inverse[j];
    const T along = inverse[j] == below ? T(0) : product(q, k.at(j, 0), in.dim);
    combine(by, q, -by * inverse[j] * inverse[j] * along, k.at(j, 0), dk.at(j, 0), in.dim);
    dl.data[j] = by;
  }
  weighted_sum<T>(dl.data, k, in.keys, in.dim, to.q.at(i).data);
}

}  // namespace attnlab::small
