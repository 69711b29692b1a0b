// Memory of large tensors that are made over and over by threads that prepare data.
//
// malloc gives threads heaps of 64 MB and unmaps each one when it is empty, so that the system
// clears the pages of every batch anew. Blocks from here are kept for the next tensor of their size
// instead. What is kept and what is in use are together never more than what was once in use at one
// time.
#pragma once

#include "framework/tensor/tensor.h"

namespace attnlab {

/// As `at::empty` on the processor; small ones are just that. Its memory comes back to be kept when
/// the last tensor that uses it ends. Thread-safe. MemoryMeter does not see it.
Tensor empty_kept(c10::IntArrayRef sizes, c10::ScalarType type = at::kFloat);

}  // namespace attnlab
