// Logits by distance to logits by key, as Transformer-XL shifts them, and back.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

/// out[i, j] = x[i, Lq - 1 - i + j], a view where there is more than one query.
/// @param x  [B, H, Lq, Lq + Lk - 1] contiguous; column c is distance Lk - 1 - c.
/// @returns [B, H, Lq, Lk]
Tensor shift_distances(const Tensor& x, std::int64_t keys);

/// The adjoint: [B, H, Lq, Lk] to [B, H, Lq, Lq + Lk - 1], zeros elsewhere.
Tensor unshift_distances(const Tensor& x);

}  // namespace attnlab
