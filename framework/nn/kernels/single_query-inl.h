// A head of small attention with one query, forward and backward: what a class token asks.
//
//   l_j = scale q k̄_j,   p = softmax(l),   y = sum_j drop(p)_j v_j
//
// With one query nothing is used twice, so that nothing is brought to another form first: each row
// of keys and values is read where it lies, once forward and once backward. Values are added up in
// parts of `kKeysOfPart` keys, which threads may share: the same numbers, however many there are.
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

/// scale q k̄_j of some keys. @param p  [Lk]
template <class T>
HWY_INLINE void query_logits(const HeadwisePlan<T>& in, std::int64_t i, KeyRange keys, T* p) {
  const T* const q = in.q.at(i).data;
  const Matrix<const T> k = in.k.at(i);
  for (std::int64_t j = keys.begin; j < keys.end; ++j) {
    const T* key = k.at(j, 0);
    if (!in.unit) {
      p[j] = in.scale * dot(q, key, in.dim);
      continue;
    }
    T& inverse = in.inverse[i * in.keys + j];
    inverse = inverse_of(std::sqrt(dot(key, key, in.dim)), T(in.eps));
    p[j] = in.scale * (dot(q, key, in.dim) * inverse);
  }
}

/// Keys of a part.
template <class T>
HWY_INLINE KeyRange keys_of_part(const HeadwisePlan<T>& in, std::int64_t part) {
  const std::int64_t begin = part * kKeysOfPart;
  return {begin, std::min(begin + kKeysOfPart, in.keys)};
}

/// The weighted sum of a part's values. @param by  [Lk] @param y  [Dv]
template <class T>
HWY_INLINE void sum_part(const HeadwisePlan<T>& in, std::int64_t i, std::int64_t part, const T* by,
                         T* y) {
  const KeyRange keys = keys_of_part(in, part);
  weighted_sum(by + keys.begin, in.v.at(i).from_row(keys.begin), keys.end - keys.begin, in.channels,
               y);
}

template <class T>
HWY_INLINE void attend_query(const HeadwisePlan<T>& in, std::int64_t i, T* weights, Heads<T> out,
                             Scratch<T> room) {
  const Matrix<T> p = weights != nullptr ? weights_of(in, weights, i) : room.matrix(1, in.keys);
  query_logits(in, i, {0, in.keys}, p.data);
  weigh(in, i, SeenBlock{0, 1, {0, in.keys}}, p);
  const T* by = p.data;
  if (in.drops.p > 0) {
    const Matrix<T> kept = room.matrix(1, in.keys);
    multiply_by(in, factors_of(in, i, room), p.fixed(), kept);
    by = kept.data;
  }
  T* const y = out.at(i).data;
  sum_part(in, i, 0, by, y);
  T* const more = room.take(padded<T>(in.channels));
  for (std::int64_t part = 1; part * kKeysOfPart < in.keys; ++part) {
    sum_part(in, i, part, by, more);
    combine(T(1), y, T(1), more, y, in.channels);
  }
}

/// A step of the same, without dropout: of one part, or of the head.
template <class T>
HWY_INLINE void attend_part(const HeadwisePlan<T>& in, const PartOfQuery<T>& at, Heads<T> out) {
  const std::int64_t width = padded<T>(in.channels);
  switch (at.step) {
    case QueryStep::logits:
      return query_logits(in, at.head, keys_of_part(in, at.part), at.row);
    case QueryStep::weights:
      return weigh(in, at.head, SeenBlock{0, 1, {0, in.keys}},
                   Matrix<T>{at.row, padded<T>(in.keys)});
    case QueryStep::values:
      return sum_part(in, at.head, at.part, at.row, at.sums + at.part * width);
    case QueryStep::result:
      break;
  }
  T* const y = out.at(at.head).data;
  std::copy_n(at.sums, in.channels, y);
  for (std::int64_t part = 1; part * kKeysOfPart < in.keys; ++part) {
    combine(T(1), y, T(1), at.sums + part * width, y, in.channels);
  }
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
