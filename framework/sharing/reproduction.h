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
  /// was added to the finished run, which its configuration does not name; "other settings": one
  /// that has this name there and here and asks another thing; "not compared": one that has no
  /// result on either side. The last three decide nothing.
  std::string verdict;
  std::string why;  ///< in words
  bool agrees() const { return verdict == "identical" || verdict == "agrees"; }
};

/// Says in a pair which of its data are not those there: by the locks of both runs, and by what the
/// runs themselves recorded where a lock is missing or names no data.
/// @param pair  with a run here
/// @throws BundleError for a damaged lock.
void compare_data(RunPair& pair);

/// What a reader of the verdicts must know of the runs beside their numbers, each sentence once:
/// the runs' own notes, there and here; in which products, device, kernel of attention or LibTorch
/// they differ; and what was not compared, as a run has no lock.
/// @throws BundleError for a damaged lock.
std::vector<std::string> notes_of(const std::vector<RunPair>& runs);

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
