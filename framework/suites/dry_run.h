// What `attnlab suite --dry-run` says: what is to be run, what it would cost, what its seeds can
// show.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "framework/costs/forecast.h"
#include "framework/suites/suite.h"

namespace attnlab {

/// By experiment and attention's label.
using SuiteForecast = std::map<std::pair<std::string, std::string>, RunForecast>;

/// What is left to do. A begun run counts with the steps that it has left.
/// @param jobs  at least 1
TotalForecast total_of(const Suite& suite, const SuiteForecast& forecast, std::int64_t jobs);

/// What `--dry-run` prints: cells of each kind, costs, the estimate, evaluations that it leaves
/// out.
/// @param reach  what the seeds can show: seeds_text()
std::string dry_run_text(const Suite& suite, const SuiteForecast& forecast, std::int64_t jobs,
                         const std::string& reach);

/// What the number of seeds cannot show before hours are spent on it (reach_note), or that it can;
/// empty without a `compare:` section.
std::string seeds_text(const Suite& suite);
/// Only what they cannot show.
std::string seeds_warning(const Suite& suite);

}  // namespace attnlab
