// A result and its repetition, side by side.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "framework/runs/run_records.h"

namespace attnlab::sharing {

/// A run of a result, and what became of it here.
struct RunPair {
  RunRecord there;
  std::optional<RunRecord> here;        ///< empty: it could not be run
  bool other_data = false;              ///< the data here are not those that it was run on there
  std::set<std::string> other_data_of;  ///< entries of `evaluate:` whose data are not those there
};

/// One metric of one attention in one experiment, there and here.
struct Reproduced {
  std::string experiment, attention, metric;
  /// It is the headline of the run or of one of its evaluations. Other metrics are shown; but of
  /// many metrics some lie outside of any bound by chance alone.
  bool decides = false;
  std::int64_t seeds = 0;           ///< that were run here
  std::vector<double> there, here;  ///< their values, by seed
  std::int64_t other_data = 0;      ///< runs whose data differ
  /// "identical", "agrees", "DIFFERS", "no value", "OTHER DATA"; "not repeated": an evaluation that
  /// was added to the finished run, which its configuration does not name.
  std::string verdict;
  std::string why;  ///< in words
  bool agrees() const { return verdict == "identical" || verdict == "agrees"; }
};

/// Judges every metric but costs, headlines first. It is
///
///   identical  where every seed gives the same number
///   agrees     where the means lie within twice the standard error that the seeds' spread gives,
///   or
///              within a millionth of each other, which is rounding, however many seeds there are
///   DIFFERS    else, and where a seed has a value on one side alone: it diverged on the other
///
/// Seeds that diverged on both sides count as reproduced. Numbers of other data never agree.
std::vector<Reproduced> compare_results(const std::vector<RunPair>& runs);

/// Tables for a terminal: what decides, then the rest.
/// @param whole  with every metric; else of those that do not decide, the ones that do not agree
std::string reproduction_text(const std::vector<Reproduced>& all, bool whole = true);

}  // namespace attnlab::sharing
