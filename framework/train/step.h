// The pieces of one optimiser step: what training does, and what measures it.
#pragma once

#include <vector>

#include "framework/train/run.h"

namespace attnlab {

/// The parts that a step takes one after the other, as views: `count` equal ones, or fewer and a
/// smaller last one of a batch that `count` does not divide.
std::vector<Batch> parts_of(const Batch& batch, std::int64_t count);

/// Gradients of a batch, in `accumulate` parts, added to those that are there. Stops at a part
/// whose loss is not finite. @returns the batch's mean loss.
double backward(BuiltRun& run, const Batch& batch);

}  // namespace attnlab
