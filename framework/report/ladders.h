// Metrics over a number that stands in their names: "swap/0.015/nll" and "swap/0.05/nll" are nll
// over swap, "context/32/perplexity" and "context/64/perplexity" perplexity over context.
//
// Such names come from evaluations with `over:`, and from tasks that tell cases apart by a number.
#pragma once

#include "framework/report/pooling.h"

namespace attnlab {

/// A metric of one slice and attention at rising values of a number.
struct Ladder {
  struct Rung {
    double at = 0;
    Summary value;     ///< over the runs that are done
    std::string name;  ///< the metric as it is recorded
  };

  std::size_t slice = 0;
  std::string attention;
  std::string over;    ///< what stands before the number: "swap"
  std::string metric;  ///< what stands behind it: "nll"
  std::vector<Rung> rungs;
};

/// All with two numbers or more; those of one metric next to each other.
std::vector<Ladder> ladders_of(const std::vector<PooledCell>& cells);

}  // namespace attnlab
