// A suite: experiments x attentions x seeds, each cell a run in a process of its own, and a table.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/comparison.h"
#include "framework/core/experiment.h"
#include "framework/core/progress.h"
#include "framework/core/run_folder.h"
#include "framework/core/statistics.h"

namespace attnlab {

/// One cell: an experiment with one attention and one seed.
struct Cell {
  Experiment experiment;
  std::int64_t seed = 0;
  RunFolder folder;
};

struct Suite {
  std::string name;
  std::string file;
  std::string baseline;                 ///< label of an attention
  std::vector<std::string> attentions;  ///< labels, in the order of the file
  std::vector<std::string> experiments;
  std::vector<Cell> cells;
  /// Overrides that are used where an experiment's data cannot be had; null: none.
  Node fallback;
  /// The `compare:` section: what `attnlab compare` does with the runs; empty without one.
  std::optional<CompareOptions> compare;
  std::vector<std::string> notes;  ///< what readers of the table must know, e.g. "synthetic data"
};

/// Loads a suite and resolves every cell.
/// @param root          where runs are filed ("runs")
/// @param use_fallback  replace what the suite's `fallback:` says
/// @throws ConfigError with every problem of the suite and of all its cells.
Suite load_suite(const std::string& path, const std::vector<std::string>& overrides,
                 const Catalogue& catalogue, const std::string& root, bool use_fallback = false);

/// What a suite's table shows: a row for each experiment and attention.
struct SuiteRow {
  std::string experiment, attention;
  std::map<std::string, Summary> metrics;
  std::map<RunState, std::int64_t> states;  ///< how many seeds ended how
};

std::vector<SuiteRow> summarise(const Suite& suite);
std::string suite_markdown(const Suite& suite, const std::vector<SuiteRow>& rows,
                           const std::string& command);
std::string suite_json(const Suite& suite, const std::vector<SuiteRow>& rows,
                       const std::string& command);

/// Every cell is finished.
bool complete(const Suite& suite);

}  // namespace attnlab
