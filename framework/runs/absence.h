// Why a number of a table is not there: a typed reason, never a zero.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attnlab {

enum class Absence {
  none,
  pending,
  running,
  interrupted,
  failed,
  diverged,
  incompatible,   ///< the experiment cannot be composed with this attention
  no_run,         ///< there is no folder
  no_value,       ///< the run is done and has no value of the metric
  no_baseline,    ///< the baseline has no value here
  too_few_pairs,  ///< fewer than two seeds that both have
  no_spread,      ///< all differences are equal: the t test is not defined
  skipped,        ///< the suite says so, with its reason
  no_data,        ///< the experiment's data are not on this machine
  stale,          ///< there is a run of the same configuration with other plugin files or data
  unreadable,     ///< the run's files are damaged or may not be read
  no_plugin,      ///< the experiment's model, task or dataset is not installed here
  not_finite,     ///< the run is done, and its value is not a finite number
};
std::string_view name_of(Absence absence);
/// @throws DataError for an unknown name.
Absence parse_absence(const std::string& name);

struct Gap {
  Absence kind = Absence::none;
  std::string reason;  ///< a run's own words; may be empty

  explicit operator bool() const { return kind != Absence::none; }
  /// "diverged: loss is nan at step 12".
  std::string text() const;
};

/// A cell of a suite that has no run, and why: skipped, incompatible or stale.
struct AbsentCell {
  std::string experiment, attention;  ///< the attention's label
  std::int64_t seed = 0;
  Gap gap;
  std::string folder;  ///< of the stale run; else empty
};

/// "EXPERIMENT, ATTENTION, seeds 0, 1: skipped: REASON": one line for all cells of an experiment
/// that are absent alike.
std::vector<std::string> absence_lines(const std::vector<AbsentCell>& cells);

}  // namespace attnlab
