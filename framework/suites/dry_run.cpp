#include "framework/suites/dry_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/base/text.h"
#include "framework/document/text.h"
#include "framework/experiment/evaluations.h"
#include "framework/suites/planned_test.h"

namespace attnlab {
namespace {

/// An estimate has fewer digits than what was measured (memory_text).
std::string rough_memory(double bytes) {
  if (bytes <= 0) return "-";
  return bytes >= 1e9 ? fmt::format("{:.1f} GB", bytes / 1e9)
                      : fmt::format("{:.0f} MB", bytes / 1e6);
}

/// Null where it was not measured.
const RunForecast* forecast_of(const Cell& cell, const SuiteForecast& forecast) {
  const auto found = forecast.find({cell.experiment.name, cell.experiment.attention.label});
  return found == forecast.end() ? nullptr : &found->second;
}

std::string runs_text(std::int64_t count) {
  return fmt::format("{}{}", count, count == 1 ? " run" : " runs");
}

/// "3 to run, 2 finished, 1 stale, 1 skipped".
std::string counts_text(const Suite& suite) {
  const std::pair<CellAction, const char*> kinds[] = {{CellAction::run, "to run"},
                                                      {CellAction::finished, "finished"},
                                                      {CellAction::busy, "running elsewhere"},
                                                      {CellAction::failed, "failed"},
                                                      {CellAction::stale, "stale"}};
  std::vector<std::string> parts;
  for (const auto& [action, name] : kinds) {
    const auto count =
        std::count_if(suite.cells.begin(), suite.cells.end(),
                      [wanted = action](auto& cell) { return cell.action == wanted; });
    if (count > 0 || action == CellAction::run) {
      parts.push_back(fmt::format("{} {}", count, name));
    }
  }
  std::map<Absence, std::int64_t> absent;
  for (const AbsentCell& cell : suite.absent) ++absent[cell.gap.kind];
  for (const auto& [kind, count] : absent) {
    parts.push_back(fmt::format("{} {}", count, name_of(kind)));
  }
  return join(parts, ", ");
}

/// A line for each cell that is not run and is not finished.
std::string left_out_text(const Suite& suite) {
  std::string text;
  for (const Cell& cell : suite.cells) {
    if (cell.action == CellAction::run || cell.action == CellAction::finished) continue;
    const char* kind = cell.action == CellAction::stale    ? "stale: "
                       : cell.action == CellAction::failed ? "failed: "
                                                           : "";
    text += fmt::format("  {}  {}{}\n", RunFolder::label(cell.experiment, cell.seed), kind,
                        cell.reason);
  }
  for (const std::string& line : absence_lines(suite.absent)) text += fmt::format("  {}\n", line);
  return text;
}

/// Runs that one line of the table stands for.
struct CostLine {
  std::string experiment, attention;
  const RunForecast* forecast = nullptr;  ///< null: not measured
  std::int64_t runs = 0;
};

bool cost_the_same(const RunForecast* a, const RunForecast* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->parameters == b->parameters && a->steps == b->steps &&
         a->step_seconds == b->step_seconds && a->problem == b->problem;
}

/// A line for each experiment and attention; points of a grid that cost the same share one.
std::vector<CostLine> cost_lines(const Suite& suite, const SuiteForecast& forecast) {
  std::map<std::string, std::string> bases;
  for (const SuitePoint& point : suite.points) {
    bases[point.experiment] = point.base + ", points of the grid";
  }
  if (suite.tuning) {
    for (const TunedCell& one : suite.tuning->cells) {
      for (const TunePoint& point : one.points) {
        bases[one.experiment + point.suffix] = one.experiment + ", tries";
      }
    }
  }
  std::vector<CostLine> lines;
  for (const Cell& cell : suite.cells) {
    if (cell.action != CellAction::run) continue;
    const std::string& experiment = cell.experiment.name;
    const std::string& attention = cell.experiment.attention.label;
    const RunForecast* const own = forecast_of(cell, forecast);
    const auto base = bases.find(experiment);
    const std::string& name = base == bases.end() ? experiment : base->second;
    const auto line = std::find_if(lines.begin(), lines.end(), [&](const CostLine& one) {
      return one.experiment == name && one.attention == attention &&
             cost_the_same(one.forecast, own);
    });
    if (line != lines.end()) {
      ++line->runs;
    } else {
      lines.push_back({name, attention, own, 1});
    }
  }
  return lines;
}

std::string costs_table(const Suite& suite, const SuiteForecast& forecast) {
  Table table{
      "", {"experiment", "attention", "runs", "parameters", "steps", "time of a run", "memory"}};
  for (const CostLine& one : cost_lines(suite, forecast)) {
    std::vector<TableCell>& line = table.rows.emplace_back();
    line = {one.experiment, one.attention, std::to_string(one.runs)};
    line.resize(table.columns.size());
    if (one.forecast == nullptr || !one.forecast->problem.empty()) continue;
    line[3] = std::to_string(one.forecast->parameters);
    line[4] = std::to_string(one.forecast->steps);
    line[5] = duration(one.forecast->seconds());
    line[6] = rough_memory(static_cast<double>(one.forecast->peak_memory));
  }
  return table.rows.empty() ? "" : "\n" + table_text(table, TableStyle::text);
}

/// The entries of `evaluate:` of all that is to be run, which costs leave out: attacks take hours
/// where an evaluation of the run itself takes seconds.
std::string uncounted_text(const Suite& suite) {
  std::vector<std::string> names;
  for (const Cell& cell : suite.cells) {
    const Node* entries = cell.experiment.resolved.find("evaluate");
    if (cell.action != CellAction::run || entries == nullptr || entries->is_null()) continue;
    for (const auto& [name, entry] : entries->entries()) {
      const bool known = std::find(names.begin(), names.end(), name) != names.end();
      if (name != kClean && !known) names.push_back(name);
    }
  }
  if (names.empty()) return "";
  return fmt::format("not counted: the evaluations {}\n", join(names, ", "));
}

std::string problems_text(const SuiteForecast& forecast) {
  std::string text;
  for (const auto& [key, one] : forecast) {
    if (!one.problem.empty()) {
      text += fmt::format("\n{}, {} cannot be built: {}\n", key.first, key.second, one.problem);
    }
  }
  return text;
}

}  // namespace

TotalForecast total_of(const Suite& suite, const SuiteForecast& forecast, std::int64_t jobs) {
  std::vector<RunToDo> runs;
  for (const Cell& cell : suite.cells) {
    const RunForecast* const own = forecast_of(cell, forecast);
    if (cell.action != CellAction::run || own == nullptr) continue;
    const auto steps = static_cast<double>(own->steps);
    const auto done = static_cast<double>(cell.folder.status().step);
    runs.push_back({own, steps > 0 ? 1 - std::min(done, steps) / steps : 1});
  }
  return total_of(runs, jobs);
}

std::string seeds_warning(const Suite& suite) {
  if (!suite.compare || suite.cells.empty()) return "";
  const auto [pairs, tests] = pairs_and_tests(suite);
  return tests == 0 ? "" : reach_note(*suite.compare, pairs, tests);
}

std::string seeds_text(const Suite& suite) {
  if (!suite.compare || suite.cells.empty()) return "";
  std::string warning = seeds_warning(suite);
  const auto [pairs, tests] = pairs_and_tests(suite);
  if (!warning.empty() || tests == 0) return warning;
  return fmt::format(
      "{} paired seeds can be significant at the level {} with the test '{}', {} {} counted", pairs,
      shortest(suite.compare->level), suite.compare->test, tests,
      tests == 1 ? "comparison" : "comparisons");
}

std::string dry_run_text(const Suite& suite, const SuiteForecast& forecast, std::int64_t jobs,
                         const std::string& reach) {
  const TotalForecast total = total_of(suite, forecast, jobs);
  std::string text =
      fmt::format("dry run of {}: {}: {}\n{}{}{}", suite.name,
                  runs_text(static_cast<std::int64_t>(suite.cells.size() + suite.absent.size())),
                  counts_text(suite), left_out_text(suite), costs_table(suite, forecast),
                  problems_text(forecast));
  if (suite.tuned) text += "\n" + tuning_plan(suite);
  if (!reach.empty()) text += fmt::format("\ncompare: {}\n", reach);
  if (total.runs > 0) {
    text += fmt::format("\n{} to do: about {} one after the other, ", runs_text(total.runs),
                        duration(total.seconds));
    if (jobs > 1) {
      text += fmt::format("not under {} with -j {}, ", duration(total.seconds_with(jobs)), jobs);
    }
    text += fmt::format("up to {} of memory{}\n", rough_memory(total.memory),
                        jobs > 1 ? " at once" : "");
    text += uncounted_text(suite);
  }
  return text + "nothing was written\n";
}

}  // namespace attnlab
