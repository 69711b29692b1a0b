// Queries, keys and values that lie side by side in one product, forward and backward.
#pragma once

#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// Q, K and V, or K and V, [B, H, L, D] each, as views of one product of a packed matrix. Where
/// their gradients lie side by side, too (room_for_packed), the product's gradient is that memory;
/// else it is put together.
/// @param packed  [B, L, parts H D]
std::vector<Tensor> unpack_heads(const Tensor& packed, std::int64_t heads, std::int64_t parts);

/// Room for the gradients of some tensors [B, H, L, D], side by side, where they lie so themselves;
/// empty where they do not.
std::vector<Tensor> room_for_packed(const std::vector<Tensor>& parts);

}  // namespace attnlab
