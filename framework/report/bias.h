// The bias that attentions added to their logits, as the last trace of each run has it
// (`trace: {record: [bias]}`): for each layer and head a number for each relative position.
//
// Seeds are kept apart: which head does what differs between them, so a mean would show nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/runs/run_records.h"

namespace attnlab {

/// One layer of one run.
struct BiasFigure {
  std::string experiment, attention;
  std::int64_t seed = 0, step = 0;
  std::string layer;       ///< "0", or "0 call 1" of a layer's second call
  std::int64_t first = 0;  ///< place of the key after the query, in the first column
  /// A row for each head, all equally long; not a number where the run's was not finite.
  std::vector<std::vector<double>> heads;
};

/// @param runs  by experiment, attention and seed, as `find_runs` sorts them.
/// @param most_values  of one experiment and attention: later seeds beyond it are left out, the
///                     first never
/// @returns in the order of the runs and of their layers. Lines that are cut off or are of another
///          form are left out: a run may have been killed while it wrote.
std::vector<BiasFigure> biases_of(const std::vector<RunRecord>& runs,
                                  std::size_t most_values = 40000);

}  // namespace attnlab
