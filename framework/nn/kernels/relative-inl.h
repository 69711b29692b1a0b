// Logits of relative positions in a block of pairs: made by distance, read by key.
#include <hwy/highway.h>

#include "framework/nn/kernels/block_sizes.h"
#include "framework/nn/kernels/headwise.h"
#include "framework/nn/kernels/product-inl.h"

#if defined(ATTNLAB_RELATIVE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTNLAB_RELATIVE_INL_H_
#undef ATTNLAB_RELATIVE_INL_H_
#else
#define ATTNLAB_RELATIVE_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace attnlab::HWY_NAMESPACE {

/// Queries [query, query + rows) and keys [key, key + columns) of a head.
struct PairBlock {
  std::int64_t head, query, rows, key, columns;
};

/// The columns of the distances' matrix that a block of pairs needs, whole panels of them.
template <class T>
struct Distances {
  std::int64_t begin, count, first;  ///< first: of row 0's first pair, within

  Distances(const HeadwisePlan<T>& in, const PairBlock& at) {
    const std::int64_t of_first = in.queries - 1 - at.query + at.key;
    begin = (of_first - at.rows + 1) / kWide<T> * kWide<T>;
    const std::int64_t end = of_first + at.columns;
    count = std::min(in.distances(), (end + kWide<T> - 1) / kWide<T> * kWide<T>) - begin;
    first = of_first - begin;
  }
  /// The place of row r's first pair.
  std::int64_t at(std::int64_t r) const { return first - r; }
};

/// Room for a head's relative positions; where there are none, it takes none.
template <class T>
struct RelativeRoom {
  Panels<T> kt;      ///< scale R^T
  Matrix<T> logits;  ///< of a block, by distance

  /// @param rows, columns  of the largest block
  RelativeRoom(const HeadwisePlan<T>& in, std::int64_t head, std::int64_t rows,
               std::int64_t columns, Scratch<T>& room)
      : kt{nullptr, in.dim}, logits{nullptr, distance_row<T>(rows, columns)} {
    if (!in.relative()) return;
    kt.data = room.take(panel_room<T>(in.dim, in.distances()));
    logits.data = room.take(rows * logits.row);
    pack_transposed(in.relative_k.at(head), kt, in.dim, in.distances(), in.scale);
  }
};

/// Adds the logits of relative positions to a block's.
template <class T>
HWY_INLINE void add_relative(const HeadwisePlan<T>& in, const PairBlock& at,
                             const RelativeRoom<T>& room, Matrix<T> logits) {
  const Distances<T> among(in, at);
  multiply(in.relative_q.at(at.head).from_row(at.query), room.kt.fixed().from_column(among.begin),
           room.logits, at.rows, in.dim, among.count, true);
  for (std::int64_t r = 0; r < at.rows; ++r) {
    add_scaled(logits.at(r, 0), T(1), room.logits.at(r, among.at(r)), at.columns);
  }
}

/// A block's numbers by key, as numbers by distance, zeros elsewhere.
template <class T>
HWY_INLINE Distances<T> by_distance(const HeadwisePlan<T>& in, const PairBlock& at,
                                    Matrix<const T> by_key, Matrix<T> to) {
  const Distances<T> among(in, at);
  for (std::int64_t r = 0; r < at.rows; ++r) {
    T* const row = to.at(r, 0);
    std::fill_n(row, among.count, T(0));
    std::copy_n(by_key.at(r, 0), at.columns, row + among.at(r));
  }
  return among;
}

}  // namespace attnlab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
