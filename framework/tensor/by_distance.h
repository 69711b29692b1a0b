// Numbers by distance as numbers by pair.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

/// out[i, j] = table[Lq - 1 - i + j], a copy.
/// @param table  [..., Lq + Lk - 1]: entry e belongs to the distance Lk - 1 - e of a key behind its
///               query, where the last query stands at the last key
/// @param keys   Lk, 1 or more, and so is Lq
/// @returns [..., Lq, Lk]
inline Tensor pairs_of_distances(const Tensor& table, std::int64_t keys) {
  return table.unfold(-1, keys, 1).flip(-2);
}

}  // namespace attnlab
