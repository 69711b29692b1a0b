// `attnlab suite --until-width W --max-seeds N`: seeds are added until differences are known.
#pragma once

#include <functional>
#include <optional>

#include "runner/suite_runner.h"

namespace attnlab {

struct UntilWidth {
  double width = 0;             ///< of the widest interval, in the unit of tables
  std::int64_t most_seeds = 0;  ///< where it ends without that
};

void add_until_options(Usage& usage);

/// Empty where neither option is given.
/// @throws ConfigError for one without the other, for numbers that mean nothing, and beside options
///         and launchers with which nobody looks between runs.
std::optional<UntilWidth> until_width(const Arguments& arguments);

/// How the suite is loaded with other overrides than those of the command line.
using SuiteLoader = std::function<LoadSuite(const Words& overrides)>;

/// Runs the suite with more and more seeds (framework/comparison/until_width.h); each call of
/// `run_suite` leaves its table and comparison, with the level of one look.
/// @returns an exit code; kIncomplete where the seeds end first.
int run_until(const UntilWidth& until, const SuiteLoader& loader, const Arguments& arguments,
              const std::string& command, const Catalogue& catalogue);

}  // namespace attnlab
