// Which keys are tokens at all, for attentions that count tokens or walk along them.
#pragma once

#include "framework/contracts/attention.h"

namespace attnlab {

/// Beside other members' examples padding comes as pairs (MultiHeadAttention): a key that no query
/// sees is padding there.
/// @param members  AttentionShape::members
/// @returns bool, [B or 1, H or 1, Lk], true = present; undefined: all are.
inline Tensor present_keys(const Visibility& visible, std::int64_t members) {
  if (visible.key_valid.defined()) return visible.key_valid.unsqueeze(1);
  if (members == 1 || !visible.pairs.defined()) return {};
  Tensor present = visible.pairs.dim() < 2 ? visible.pairs : visible.pairs.any(-2);
  while (present.dim() < 3) present = present.unsqueeze(0);
  return present;
}

}  // namespace attnlab
