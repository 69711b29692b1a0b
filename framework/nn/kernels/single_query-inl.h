// A head of small attention with one query, forward and backward: what a class token asks.
//
//   l_j = scale q k̄_j,   p = softmax(l),   y = sum_j drop(p)_j v_j
//
// With one query nothing is used twice, so that nothing is brought to another form first: each row
// of keys and values is read where it lies, once forward and once backward.
// Cost: O(Lk (D + Dv)).
#include <hwy/highway.h>

#include <cmath>

#include "framework/nn/kernels/small_head-inl.h"

#if defined(ATTNLAB_SINGLE_QUERY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTNLAB_SINGLE_QUERY_INL_H_
#undef ATTNLAB_SINGLE_QUERY_INL_H_
#else
#define ATTNLAB_SINGLE_QUERY_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

/// y = sum_j factors[j] x_j. @param x  [rows, columns]
template <class T>
HWY_INLINE void weighted_sum(const T* factors, Matrix<const T> x, std::int64_t rows,
                             std::int64_t columns, T* y) {
  each_vector<T>(columns, [&](std::int64_t i, auto part) HWY_ATTR {
    Vec<T> even = zeros<T>(), odd = even;
    std::int64_t j = 0;
    for (; j + 2 <= rows; j += 2) {
      even = hn::MulAdd(all(factors[j]), load(x.at(j, i), part), even);
      odd = hn::MulAdd(all(factors[j + 1]), load(x.at(j + 1, i), part), odd);
    }
    if (j < rows) even = hn::MulAdd(all(factors[j]), load(x.at(j, i), part), even);
    store<T>(hn::Add(even, odd), y + i, part);
  });
}

/// y = a x + b z
template <class T>
HWY_INLINE void combine(T a, const T* x, T b, const T* z, T* y, std::int64_t n) {
  each_vector<T>(n, [&](std::int64_t i, auto part) HWY_ATTR {
    const Vec<T> first = hn::Mul(all(a), load(x + i, part));
    store<T>(hn::MulAdd(all(b), load(z + i, part), first), y + i, part);
  });
}

template <class T>
HWY_INLINE void attend_query(const HeadwisePlan<T>& in, std::int64_t i, T* weights, Heads<T> out,
                             Scratch<T> room) {
  const T* const q = in.q.at(i).data;
  const Matrix<const T> k = in.k.at(i);
  const Matrix<T> p = weights != nullptr ? weights_of(in, weights, i) : room.matrix(1, in.keys);
  for (std::int64_t j = 0; j < in.keys; ++j) {
    const T* key = k.at(j, 0);
    if (!in.unit) {
      p.data[j] = in.scale * dot(q, key, in.dim);
      continue;
    }
    T& inverse = in.inverse[i * in.keys + j];
    inverse = inverse_of(std::sqrt(dot(key, key, in.dim)), T(in.eps));
    p.data[j] = in.scale * (dot(q, key, in.dim) * inverse);
  }
  weigh(in, i, SeenBlock{0, 1, {0, in.keys}}, p);
  const T* by = p.data;
  if (in.drops.p > 0) {
    const Matrix<T> kept = room.matrix(1, in.keys);
    multiply_by(in, factors_of(in, i, room), p.fixed(), kept);
    by = kept.data;
  }
  weighted_sum(by, in.v.at(i), in.keys, in.channels, out.at(i).data);
}

/// dv_j = drop(p)_j dy,  dl_j = scale p_j (dp_j - <dp, p>),  dq = sum_j dl_j k̄_j,
/// dk_j = dl_j (q - k̄_j <q, k̄_j>) / |k_j| of unit keys, else dl_j q.
template <class T>
HWY_INLINE void differentiate_query(const HeadwisePlan<T>& in, std::int64_t i, T* weights,
                                    const HeadwiseGradients<T>& to, Scratch<T> room) {
  const T* const q = in.q.at(i).data;
  const T* const dy = to.out.at(i).data;
  const Matrix<const T> k = in.k.at(i), v = in.v.at(i);
  const Matrix<T> p = weights_of(in, weights, i), dl = room.matrix(1, in.keys), dk = to.k.at(i);
  const T* kept = p.data;
  for (std::int64_t j = 0; j < in.keys; ++j) dl.data[j] = dot(dy, v.at(j, 0), in.channels);
  std::fill(dl.data + in.keys, dl.data + whole_vectors<T>(in.keys), T(0));
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
  const T below = inverse_of(T(0), T(in.eps));  // a key under the floor: times a constant
  for (std::int64_t j = 0; j < in.keys; ++j) {
    const T by = dl.data[j] * inverse[j];
    const T along = inverse[j] == below ? T(0) : dot(q, k.at(j, 0), in.dim);
    combine(by, q, -by * inverse[j] * inverse[j] * along, k.at(j, 0), dk.at(j, 0), in.dim);
    dl.data[j] = by;
  }
  weighted_sum<T>(dl.data, k, in.keys, in.dim, to.q.at(i).data);
}

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
