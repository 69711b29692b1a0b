// Rows of any length in registers: whole vectors, then four numbers at a time, then one.
//
// Loops over a row's plain numbers are not kept in vectors where the row is short and sums must
// keep their order; these are. Everything is inlined into the caller, which chooses the instruction
// set (framework/base/vector_clones.h).
#pragma once

#include "framework/nn/kernels/small_matrix.h"

namespace attnlab::small {

/// Pieces of a row: a vector, four numbers, one.
template <class T>
struct Whole {
  using Piece = typename Lanes<T>::Vector;
};
template <class T>
struct Four {
  using Piece = typename Lanes<T>::Quad;
};
template <class T>
struct One {
  using Piece = T;
};

/// The piece that begins at p.
template <class Kind, class T>
[[gnu::always_inline]] inline typename Kind::Piece& piece_at(T* p) {
  return *reinterpret_cast<typename Kind::Piece*>(p);
}
template <class Kind, class T>
[[gnu::always_inline]] inline const typename Kind::Piece& piece_at(const T* p) {
  return *reinterpret_cast<const typename Kind::Piece*>(p);
}

/// Calls work(kind, i) for the pieces of a row of n numbers, from its first number on.
template <class T, class Work>
[[gnu::always_inline]] inline void each_piece(std::int64_t n, const Work& work) {
  std::int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) work(Whole<T>(), i);
  for (; i + 4 <= n; i += 4) work(Four<T>(), i);
  for (; i < n; ++i) work(One<T>(), i);
}

/// Sums in pieces.
template <class T>
struct PieceSums {
  typename Whole<T>::Piece whole{};
  typename Four<T>::Piece four{};
  T one = 0;

  [[gnu::always_inline]] auto& of(Whole<T>) { return whole; }
  [[gnu::always_inline]] auto& of(Four<T>) { return four; }
  [[gnu::always_inline]] auto& of(One<T>) { return one; }

  [[gnu::always_inline]] T total() {
    T numbers[kLanes<T>];
    piece_at<Whole<T>>(numbers) = whole;
    for (std::int64_t i = 0; i < kLanes<T>; i += 4) four += piece_at<Four<T>>(numbers + i);
    return (four[0] + four[2]) + (four[1] + four[3]) + one;
  }
};

}  // namespace attnlab::small
