// A suite: experiments x attentions x seeds, each cell a run in a process of its own, and a table.
// A sweep is one too, with the points of its axes as experiments: sweep.h.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "framework/comparison/comparison.h"
#include "framework/comparison/statistics.h"
#include "framework/experiment/experiment.h"
#include "framework/experiment/match.h"
#include "framework/runs/absence.h"
#include "framework/runs/page_spec.h"
#include "framework/runs/suite_point.h"
#include "framework/suites/cell.h"
#include "framework/suites/suite_reference.h"
#include "framework/suites/suite_relative.h"
#include "framework/suites/tune.h"

namespace attnlab {

struct Suite {
  std::string name;
  std::string file;
  std::string folder;                   ///< where its runs are filed: "runs/quickstart"
  std::string baseline;                 ///< label of an attention
  std::vector<std::string> attentions;  ///< labels, in the order of the file
  std::vector<std::string> experiments;
  std::vector<SuitePoint> points;  ///< one for each experiment; empty without a `grid:`
  std::vector<std::string> pool;   ///< axes of the grid that tables are pooled by
  std::vector<Cell> cells;
  std::vector<AbsentCell> absent;  ///< skipped and incompatible cells, and those without data
  /// `missing_data: skip`: experiments whose data are not on this machine are absent, not an error.
  bool skip_missing_data = false;
  /// `missing_plugins: skip`: the same for experiments whose model, task or dataset is not
  /// installed.
  bool skip_missing_plugins = false;
  /// What the page over domains shows; empty without one.
  std::optional<PageSpec> page;
  /// Folders of stored results that stand for runs which agree with them; as `stored:` names them,
  /// relative to the suite's file.
  std::vector<std::string> stored;
  std::string warning;  ///< said loudly before and after; part of the notes
  /// A publication's numbers, shown beside the suite's own; empty without any.
  std::vector<PublishedNumbers> references;
  /// What the table gives as a share of one experiment's value; empty without one.
  std::optional<RelativeTo> relative;
  /// Overrides that are used where an experiment's data cannot be had; null: none.
  Node fallback;
  /// The `compare:` section: what `attnlab compare` does with the runs; empty without one.
  std::optional<CompareOptions> compare;
  /// The test that `plan_test` chose; empty where it is the suite's own, or the default.
  std::string planned_test;
  /// The `match:` section, and where it stands; empty without one.
  std::optional<MatchOptions> match;
  Place match_place;
  std::vector<std::string> notes;  ///< what readers of the table must know, e.g. "synthetic data"
  /// The `tune:` section; the cells have the values of its first try until `choose_values`.
  std::optional<Tuning> tuning;
  std::optional<TuningRecord> tuned;  ///< what its tries came to
  bool tries_left = false;            ///< some have not ended: cells are missing for that
};

/// Loads a suite and resolves every cell. A cell whose attention does not fit its experiment is
/// absent as incompatible; so are those that `skip:` names, as skipped.
/// @param root          where runs are filed: kRunsFolder
/// @param use_fallback  replace what the suite's `fallback:` says
/// @param matcher       what `match:` lays over each cell; without one the cells are as composed
/// @throws ConfigError with every problem of the suite and of all its cells, and where no cell is
///         left to run.
Suite load_suite(const std::string& path, const std::vector<std::string>& overrides,
                 const Catalogue& catalogue, const std::string& root, bool use_fallback = false,
                 const Matcher& matcher = {});

/// Skipped, incompatible and stale cells (`decide` finds the stale ones).
std::vector<AbsentCell> absent_cells(const Suite& suite);

/// What a suite's table shows: a row for each experiment and attention.
struct SuiteRow {
  std::string experiment, attention;
  std::map<std::string, Summary> metrics;
  std::map<RunState, std::int64_t> states;   ///< how many seeds ended how
  std::map<Absence, std::int64_t> absences;  ///< how many have no run, or none that can be read
  std::vector<MetricInfo> infos{};           ///< what the runs say of the metrics
  std::set<std::string> details{};           ///< metrics that tables leave out
  std::int64_t not_finite = 0;               ///< runs that are done with such a value
  std::set<std::string> notes{};             ///< what the runs themselves say
};

std::vector<SuiteRow> summarise(const Suite& suite);
/// Runs of any experiments as one row. Stale cells do not count; a value that is not finite counts
/// nowhere.
SuiteRow row_over(const std::vector<const Cell*>& cells, const std::string& experiment,
                  const std::string& attention);
std::string suite_markdown(const Suite& suite, const std::vector<SuiteRow>& rows,
                           const std::string& command);
/// Its `complete` holds where `complete` does and every run could be read for the table.
std::string suite_json(const Suite& suite, const std::vector<SuiteRow>& rows,
                       const std::string& command);

/// What stands beside the runs from the start (suite.json): name, baseline, cells with their
/// folders, absent ones with their reasons; for `attnlab status` and `attnlab compare`.
std::string suite_record(const Suite& suite, const std::string& command);

/// Every cell that can be run is done or diverged, and none is stale or unreadable; no try is left.
bool complete(const Suite& suite);

}  // namespace attnlab
