// Batches of series of unequal length.
#pragma once

#include "framework/contracts/dataset.h"

namespace attnlab {

/// Stacks examples with a `series` [L, C] of their own length. `series` and `valid` (where it is
/// there: [L] bool, true = real) are padded at the end with zeros and false, all other fields are
/// stacked as they are.
/// @param least  pads to this length at least
Batch collate_series(const std::vector<NamedTensors>& examples, std::int64_t least);

}  // namespace attnlab
