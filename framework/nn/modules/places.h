// Where tokens stand, for layers and attentions that read places (AttentionTraits::places).
#pragma once

#include "framework/contracts/attention.h"

namespace attnlab {

/// The places of an input's tokens, in float64 on the queries' device: what counts are small
/// differences of numbers that may be large.
struct Places {
  /// Those given, else 0, 1, 2, ..., in a ragged batch from 0 on in each sequence.
  /// @throws ShapeError where queries and keys have different numbers of coordinates.
  explicit Places(const AttentionInput& input);

  std::int64_t coordinates() const { return queries.size(2); }

  Tensor queries;  ///< [B or 1, Lq, P]
  Tensor keys;     ///< [B or 1, Lk, P]; the queries' tensor where both stand at the same places
};

}  // namespace attnlab
