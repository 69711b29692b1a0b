// Keys of examples by their content, for random numbers that depend on neither batch nor order.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// A hash of the values of each row. @param values  [B, ...] of any dtype
std::vector<std::uint64_t> keys_of(const Tensor& values);

}  // namespace attnlab
