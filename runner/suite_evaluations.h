// Evaluations that are left of a suite's finished runs: what `evaluate:` of their experiments asks,
// and its results do not have.
#pragma once

#include <string>
#include <vector>

#include "framework/runs/progress.h"
#include "framework/suites/suite.h"

namespace attnlab {

/// What is left to evaluate of one finished run.
struct LeftEntries {
  const Cell* cell;
  std::vector<std::string> names;
};

/// Evaluations that cannot be made any more.
/// @param failed_again  those that failed before are among them
void note_lost_models(Suite& suite, const Catalogue& catalogue, bool failed_again);

/// Carries out what the experiments' `evaluate:` asks of runs that are finished.
/// @returns what was left before
std::vector<LeftEntries> evaluate_left(const Suite& suite, const Catalogue& catalogue,
                                       bool failed_again, bool waits, ProgressSink& progress);

/// Evaluations that came to no result, not to a failure either: their process could not begin with
/// them, or they are for somebody else to make.
/// @param before  what was left before they were tried
void note_still_left(Suite& suite, const std::vector<LeftEntries>& before,
                     const Catalogue& catalogue);

/// Finished runs that would be evaluated.
std::string entries_text(const Suite& suite, const Catalogue& catalogue);

}  // namespace attnlab
