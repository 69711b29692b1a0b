// Ranks of attentions over the experiments of a comparison.
#pragma once

#include "framework/comparison/comparison.h"

namespace attnlab {

/// Adds ranks over the experiments in which every ranked attention has a value, or why there are
/// none, and what they leave out. Each experiment is ranked by its own metric and direction.
void add_ranking(Comparison& comparison);

}  // namespace attnlab
