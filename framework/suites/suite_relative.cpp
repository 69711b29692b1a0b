#include "framework/suites/suite_relative.h"

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "framework/base/text.h"
#include "framework/runs/metric_infos.h"
#include "framework/runs/run_result.h"
#include "framework/suites/suite.h"

namespace attnlab {
namespace {

/// Results by experiment, attention and seed; without those that cannot be read.
using Results = std::map<std::tuple<std::string, std::string, std::int64_t>, RunResult>;

Results results_of(const std::vector<Cell>& cells) {
  Results results;
  for (const Cell& cell : cells) {
    if (cell.action == CellAction::stale) continue;
    try {
      results[{cell.experiment.name, cell.experiment.attention.label, cell.seed}] =
          read_result(cell.folder.path());
    } catch (const Error&) {  // the table says so of the row itself
      continue;
    }
  }
  return results;
}

bool is_of(const std::string& name, const std::string& metric) {
  return name == metric || name.ends_with("/" + metric);
}

/// The shares of one row's runs, by metric.
std::map<std::string, std::vector<double>> shares_of(const SuiteRow& row, const Results& results,
                                                     const RelativeTo& relative) {
  std::map<std::string, std::vector<double>> shares;
  for (const auto& [key, run] : results) {
    const auto& [experiment, attention, seed] = key;
    if (experiment != row.experiment || attention != row.attention) continue;
    const auto base = results.find({relative.to, attention, seed});
    const auto whole = base == results.end() ? std::nullopt : base->second.value(relative.metric);
    if (!whole || *whole == 0) continue;
    for (const auto& [name, summary] : row.metrics) {
      const bool itself = experiment == relative.to && name == relative.metric;
      const auto value = is_of(name, relative.metric) ? run.value(name) : std::nullopt;
      if (value && !itself) shares[name].push_back(*value / *whole);
    }
  }
  return shares;
}

}  // namespace

std::string relative_name(const std::string& metric) { return "relative/" + metric; }

void add_relative(const RelativeTo& relative, const std::vector<Cell>& cells,
                  std::vector<SuiteRow>& rows) {
  const Results results = results_of(cells);
  for (SuiteRow& row : rows) {
    for (const auto& [name, list] : shares_of(row, results, relative)) {
      const MetricInfo whole = metric_or_plain(row.infos, name);
      row.infos.push_back({relative_name(name), whole.better, "share"});
      row.metrics[relative_name(name)] = summary_of(list);
    }
  }
}

}  // namespace attnlab
