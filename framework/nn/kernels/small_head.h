// A head of small attention, forward and backward: everything in one piece of scratch.
//
//   P = softmax(scale * Q K̄^T),   Y = drop(P) V
//
// Everything is inlined into the caller, which chooses the instruction set
// (framework/base/vector_clones.h). Heads with one query have loops of their own:
// framework/nn/kernels/single_query.h.
#pragma once

#include <algorithm>
#include <limits>
#include <type_traits>

#include "framework/nn/kernels/small_attention.h"
#include "framework/nn/kernels/small_matrix.h"
#include "framework/nn/kernels/unit_row.h"

namespace attnlab::small {

/// The heads of a [B, H, L, C] tensor as matrices [L, C].
template <class T>
struct Heads {
  T* data = nullptr;  ///< null: there is no such tensor
  std::int64_t heads = 1, example = 0, head = 0, row = 0, column = 0;

  Heads() = default;
  explicit Heads(const Tensor& x) {
    if (!x.defined()) return;
    data = x.data_ptr<std::remove_const_t<T>>();
    heads = x.size(1), example = x.stride(0), head = x.stride(1);
    row = x.stride(2), column = x.stride(3);
  }

  [[gnu::always_inline]] Matrix<T> at(std::int64_t i) const {
    return {data + i / heads * example + i % heads * head, row, column};
  }
};

/// Room for a head's matrices, one after another.
template <class T>
struct Scratch {
  T* next;

  [[gnu::always_inline]] T* take(std::int64_t count) {
    T* taken = next;
    next += padded<T>(count);
    return taken;
  }
  [[gnu::always_inline]] Matrix<T> matrix(std::int64_t rows, std::int64_t columns) {
    return {take(rows * padded<T>(columns)), padded<T>(columns)};
  }
};

/// A problem as pointers and numbers.
template <class T>
struct Plan {
  std::int64_t queries, keys, dim, channels;
  Heads<const T> q, k, v;
  Heads<const bool> hidden;
  T scale;
  bool unit;
  double eps;
  DropoutMask drops;
  T* inverse;  ///< [B * H, Lk] of unit keys
  T* weights;  ///< [B * H, Lq, padded Lk], or null

  Plan(const HeadwiseProblem& in, const Tensor& kept)
      : queries(in.q.size(2)),
        keys(in.k.size(2)),
        dim(in.q.size(3)),
        channels(in.v.size(3)),
        q(in.q),
        k(in.k),
        v(in.v),
        hidden(in.hidden),
        scale(T(in.scale)),
        unit(in.unit.has_value()),
        eps(in.unit.value_or(0)),
        drops(in.drops),
        inverse(unit ? in.inverse.template data_ptr<T>() : nullptr),
        weights(kept.defined() ? kept.template data_ptr<T>() : nullptr) {}

  [[gnu::always_inline]] Matrix<T> weights_of(std::int64_t i) const {
    return {weights + i * queries * padded<T>(keys), padded<T>(keys)};
  }

  /// Numbers of scratch that a head needs at most, forward or backward.
  std::int64_t scratch() const {
    const std::int64_t width = padded<T>(keys), wide = padded<T>(dim), deep = padded<T>(channels);
    return (dim + channels + 3 * queries) * width + (2 * keys + queries) * wide +
           (keys + queries) * deep + padded<T>(queries * keys + kLanes<T>);
  }
};

/// scale * K̄^T, in the numbers that `unit` would give.
/// @param room  for K̄ [Lk, D], where keys come to unit length
template <class T>
[[gnu::always_inline]] inline void pack_keys(const Plan<T>& in, std::int64_t head, Matrix<T> kt,
                                             Scratch<T> room) {
  Matrix<const T> k = in.k.at(head);
  if (in.unit) {
    const Matrix<T> unit = room.matrix(in.keys, in.dim);
    rows::normalise(k.data, k.row, unit.data, unit.row, in.inverse + head * in.keys, in.keys,
                    in.dim, in.eps);
    k = unit.fixed();
  }
  pack_transposed(k, kt, in.keys, in.dim);
  if (in.scale == 1) return;
  for (std::int64_t c = 0; c < in.dim; ++c) {
    T* row = kt.data + c * kt.row;
    for (std::int64_t j = 0; j < in.keys; j += kLanes<T>) vector_at(row + j) *= in.scale;
  }
}

/// Puts the lowest number where a logit is hidden. @returns whether one is not.
template <class T>
[[gnu::always_inline]] inline bool hide(T* row, const bool* hidden, std::int64_t step,
                                        std::int64_t count) {
  std::int64_t seen = 0;
  for (std::int64_t j = 0; j < count; ++j) {
    row[j] = hidden[j * step] ? std::numeric_limits<T>::lowest() : row[j];
    seen += hidden[j * step] ? 0 : 1;
  }
  return seen > 0;
}

/// Logits to weights in place. A row that sees nothing becomes zeros.
template <class T>
[[gnu::always_inline]] inline void weigh(const Plan<T>& in, std::int64_t head, Matrix<T> rows) {
  for (std::int64_t i = 0; i < in.queries; ++i) {
    T* row = rows.data + i * rows.row;
    bool sees = true;
    if (in.hidden.data != nullptr) {
      const Matrix<const bool> hidden = in.hidden.at(head);
      sees = hidden.column == 1 ? hide(row, hidden.at(i, 0), 1, in.keys)
                                : hide(row, hidden.at(i, 0), hidden.column, in.keys);
    }
    if (sees) {
      small::softmax_row(row, in.keys);
    } else {
      std::fill_n(row, padded<T>(in.keys), T(0));
    }
  }
}

/// y = x times the factors of dropout, [Lq, Lk] without padding; y may be x.
template <class T>
[[gnu::always_inline]] inline void multiply_by(const Plan<T>& in, const T* factors,
                                               Matrix<const T> x, Matrix<T> y) {
  for (std::int64_t i = 0; i < in.queries; ++i) {
    const T* by = factors + i * in.keys;  // beyond the row's end: the next row's, or room
    for (std::int64_t j = 0; j < in.keys; j += kLanes<T>) {
      vector_at(y.data + i * y.row + j) = vector_at(x.data + i * x.row + j) * vector_at(by + j);
    }
  }
}

/// The factors of a head's weights. Room behind them is zeroed: `multiply_by` reads whole vectors.
template <class T>
[[gnu::always_inline]] inline const T* factors_of(const Plan<T>& in, std::int64_t head,
                                                  Scratch<T>& room) {
  const std::int64_t count = in.queries * in.keys;
  T* factors = room.take(count + kLanes<T>);
  dropout_factors(factors, head * count, count, in.drops);
  std::fill_n(factors + count, kLanes<T>, T(0));
  return factors;
}

template <class T>
[[gnu::always_inline]] inline void attend_head(const Plan<T>& in, std::int64_t i, Heads<T> out,
                                               Scratch<T> room) {
  const Matrix<T> kt = room.matrix(in.dim, in.keys), v = room.matrix(in.keys, in.channels);
  pack_keys(in, i, kt, room);
  Matrix<T> p = in.weights != nullptr ? in.weights_of(i) : room.matrix(in.queries, in.keys);
  multiply(in.q.at(i), kt.fixed(), p, in.queries, in.dim, in.keys, true);
  weigh(in, i, p);
  if (in.drops.p > 0) {
    const Matrix<T> kept = room.matrix(in.queries, in.keys);
    multiply_by(in, factors_of(in, i, room), p.fixed(), kept);
    p = kept;
  }
  pack(in.v.at(i), v, in.keys, in.channels);
  multiply(p.fixed(), v.fixed(), out.at(i), in.queries, in.keys, in.channels, false);
}

/// What a backward pass fills.
template <class T>
struct Gradients {
  Heads<const T> out;
  Heads<T> q, k, v;
};

/// dV = drop(P)^T dY, dL = s P (dP - <dP, P>), dQ = dL K̄, dK̄ = dL^T Q.
template <class T>
[[gnu::always_inline]] inline void differentiate_head(const Plan<T>& in, std::int64_t i,
                                                      const Gradients<T>& to, Scratch<T> room) {
  const Matrix<T> dy = room.matrix(in.queries, in.channels);
  const Matrix<T> vt = room.matrix(in.channels, in.keys);
  const Matrix<T> dl = room.matrix(in.queries, in.keys);
  const Matrix<T> p = in.weights_of(i);
  pack(to.out.at(i), dy, in.queries, in.channels);
  pack_transposed(in.v.at(i), vt, in.keys, in.channels);
  multiply(dy.fixed(), vt.fixed(), dl, in.queries, in.channels, in.keys, true);
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
    small::softmax_gradient_row(p.data + r * p.row, dl.data + r * dl.row, in.keys, in.scale);
  }
  const Matrix<T> k = room.matrix(in.keys, in.dim), q = room.matrix(in.queries, in.dim);
  pack(in.k.at(i), k, in.keys, in.dim, in.unit ? in.inverse + i * in.keys : nullptr);
  multiply(dl.fixed(), k.fixed(), to.q.at(i), in.queries, in.keys, in.dim, false);
  pack(in.q.at(i), q, in.queries, in.dim);
  const Matrix<T> dk = to.k.at(i);
  multiply(dl.fixed().transposed(), q.fixed(), dk, in.keys, in.queries, in.dim, false);
  if (in.unit) {
    rows::differentiate(k.data, k.row, in.inverse + i * in.keys, dk.data, dk.row, in.keys, in.dim,
                        in.eps);
  }
}

}  // namespace attnlab::small
