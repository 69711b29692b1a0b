// What a suite would cost, from what one process measured of each experiment and attention.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "framework/suites/suite.h"

namespace attnlab {

/// What `attnlab probe` says of an experiment.
struct CellCosts {
  std::string data;  ///< the dataset's fingerprint
  std::int64_t parameters = 0;
  double flops = 0;  ///< of the forward pass of one example
  std::int64_t steps = 0;
  double step_seconds = 0;        ///< of one training step; 0 where none was measured
  double evaluation_seconds = 0;  ///< of a run itself, not of `evaluate:`
  double peak_memory = 0;         ///< bytes
  std::string problem;            ///< why it cannot be run; else empty
  /// With `--also`: what is wrong with the training of each experiment, itself first; else empty.
  std::vector<std::string> problems{};

  double run_seconds() const {
    return static_cast<double>(steps) * step_seconds + evaluation_seconds;
  }
};

/// @param line  JSON as `attnlab probe` prints it. @throws Error where it is something else.
CellCosts parse_probe(const std::string& line);

/// Equal for experiments whose runs cost the same: they differ in their names, in seeds (options
/// called `seed` or `..._seed` too), or in numbers of the optimiser and its schedule alone.
std::string cost_key(const Experiment& experiment);

/// By experiment and attention's label.
using SuiteCosts = std::map<std::pair<std::string, std::string>, CellCosts>;

/// What is left to do, all together.
struct SuiteEstimate {
  std::int64_t runs = 0;
  double seconds = 0;  ///< of computing, one run after the other
  double longest = 0;  ///< of one run
  double memory = 0;   ///< bytes that `jobs` of the largest runs need at once

  /// With `jobs` runs side by side that do not disturb each other: what cannot be undercut.
  double seconds_with(std::int64_t jobs) const;
};

/// A begun run counts with the steps that it has left. @param jobs  at least 1
SuiteEstimate estimate(const Suite& suite, const SuiteCosts& costs, std::int64_t jobs);

/// What `--dry-run` prints: cells of each kind, costs, the estimate, evaluations that it leaves
/// out.
/// @param reach  what the seeds can show: seeds_text()
std::string dry_run_text(const Suite& suite, const SuiteCosts& costs, std::int64_t jobs,
                         const std::string& reach);

/// What the number of seeds cannot show before hours are spent on it (reach_note), or that it can;
/// empty without a `compare:` section.
std::string seeds_text(const Suite& suite);
/// Only what they cannot show.
std::string seeds_warning(const Suite& suite);

}  // namespace attnlab
