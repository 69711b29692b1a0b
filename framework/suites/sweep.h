// A sweep: one experiment at every point of a grid of values, as a suite.
//
//   attnlab sweep vit_synthetic lr=1e-4,3e-4 attention=standard,quest --seeds 0-2
//
// The points are the suite's experiments, called "vit_synthetic,lr=0.0001"; varied attentions are
// its attentions. So a sweep has the same table, resumes and compares in the same way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/suites/suite.h"

namespace attnlab {

struct SweepRequest {
  std::string file;                 ///< the experiment's
  std::vector<std::string> words;   ///< what to vary and what to set: sweep_grammar.h
  std::vector<std::int64_t> seeds;  ///< empty: the experiment's own
  std::string name;                 ///< of the folder; empty: "<experiment>-sweep"
  std::string baseline;             ///< an attention's label; empty: standard, else the first
};

/// @param root  where runs are filed: kRunsFolder
/// @throws ConfigError with every problem of the command line, the file and all points.
Suite make_sweep(const SweepRequest& request, const Catalogue& catalogue, const std::string& root);

}  // namespace attnlab
