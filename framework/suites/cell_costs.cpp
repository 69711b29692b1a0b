#include "framework/suites/cell_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>

#include "framework/base/parsed_json.h"
#include "framework/base/text.h"
#include "framework/document/text.h"
#include "framework/experiment/canonical.h"
#include "framework/experiment/evaluations.h"
#include "framework/experiment/keys.h"
#include "framework/suites/planned_test.h"

namespace attnlab {
namespace {

using nlohmann::json;

std::pair<std::string, std::string> key_of(const Cell& cell) {
  return {cell.experiment.name, cell.experiment.attention.label};
}

std::string memory_text(double bytes) {
  if (bytes <= 0) return "-";
  const bool large = bytes >= 1e9;
  char text[32];
  std::snprintf(text, sizeof text, large ? "%.1f GB" : "%.0f MB", bytes / (large ? 1e9 : 1e6));
  return text;
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
  const CellCosts* costs = nullptr;  ///< null: not measured
  std::int64_t runs = 0;
};

bool cost_the_same(const CellCosts* a, const CellCosts* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->parameters == b->parameters && a->steps == b->steps &&
         a->step_seconds == b->step_seconds && a->problem == b->problem;
}

/// A line for each experiment and attention; points of a grid that cost the same share one.
std::vector<CostLine> cost_lines(const Suite& suite, const SuiteCosts& costs) {
  std::map<std::string, std::string> bases;
  for (const SuitePoint& point : suite.points) {
    bases[point.experiment] = point.base + ", points of the grid";
  }
  std::vector<CostLine> lines;
  for (const Cell& cell : suite.cells) {
    if (cell.action != CellAction::run) continue;
    const std::string& experiment = cell.experiment.name;
    const std::string& attention = cell.experiment.attention.label;
    const auto found = costs.find({experiment, attention});
    const CellCosts* const own = found == costs.end() ? nullptr : &found->second;
    const auto base = bases.find(experiment);
    const std::string& name = base == bases.end() ? experiment : base->second;
    const auto line = std::find_if(lines.begin(), lines.end(), [&](const CostLine& one) {
      return one.experiment == name && one.attention == attention && cost_the_same(one.costs, own);
    });
    if (line != lines.end()) {
      ++line->runs;
    } else {
      lines.push_back({name, attention, own, 1});
    }
  }
  return lines;
}

std::string costs_table(const Suite& suite, const SuiteCosts& costs) {
  Table table{
      "", {"experiment", "attention", "runs", "parameters", "steps", "time of a run", "memory"}};
  for (const CostLine& one : cost_lines(suite, costs)) {
    std::vector<TableCell>& line = table.rows.emplace_back();
    line = {one.experiment, one.attention, std::to_string(one.runs)};
    line.resize(table.columns.size());
    if (one.costs == nullptr || !one.costs->problem.empty()) continue;
    line[3] = std::to_string(one.costs->parameters);
    line[4] = std::to_string(one.costs->steps);
    line[5] = duration(one.costs->run_seconds());
    line[6] = memory_text(one.costs->peak_memory);
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

std::string problems_text(const SuiteCosts& costs) {
  std::string text;
  for (const auto& [key, one] : costs) {
    if (!one.problem.empty()) {
      text += fmt::format("\n{}, {} cannot be built: {}\n", key.first, key.second, one.problem);
    }
  }
  return text;
}

}  // namespace

std::string cost_key(const Experiment& experiment) {
  const auto costs_nothing = [](const KeyPath& path, const Node&) {
    const std::string_view key = path.back();
    if (key == "seed" || key.ends_with("_seed")) return true;  // it only chooses random numbers
    return role_of(path) < Role::cost;
  };
  return experiment.train.optimizer.use + canonical_text(experiment.resolved, costs_nothing);
}

CellCosts parse_probe(const std::string& line) {
  try {
    const json in = parsed_json(line);
    CellCosts costs;
    costs.data = in.at("data").get<std::string>();
    costs.parameters = in.at("parameters").get<std::int64_t>();
    costs.flops = in.at("flops").get<double>();
    costs.steps = in.at("steps").get<std::int64_t>();
    costs.step_seconds = in.at("step_seconds").get<double>();
    costs.evaluation_seconds = in.at("evaluation_seconds").get<double>();
    costs.peak_memory = in.at("peak_memory").get<double>();
    costs.problems = in.value("problems", std::vector<std::string>());
    return costs;
  } catch (const json::exception& error) {
    throw Error(fmt::format("attnlab probe printed something else than costs: {} ({})",
                            line.substr(0, 200), error.what()));
  }
}

double SuiteEstimate::seconds_with(std::int64_t jobs) const {
  return std::max(longest, seconds / static_cast<double>(std::max<std::int64_t>(1, jobs)));
}

SuiteEstimate estimate(const Suite& suite, const SuiteCosts& costs, std::int64_t jobs) {
  SuiteEstimate total;
  std::vector<double> memory;
  for (const Cell& cell : suite.cells) {
    const auto found = costs.find(key_of(cell));
    if (cell.action != CellAction::run || found == costs.end()) continue;
    const CellCosts& one = found->second;
    const RunStatus status = cell.folder.status();
    const double left = one.steps > 0 ? 1 - static_cast<double>(std::min(status.step, one.steps)) /
                                                static_cast<double>(one.steps)
                                      : 1;
    ++total.runs;
    total.seconds += left * one.run_seconds();
    total.longest = std::max(total.longest, left * one.run_seconds());
    memory.push_back(one.peak_memory);
  }
  std::sort(memory.begin(), memory.end(), std::greater<>());
  memory.resize(std::min(memory.size(), static_cast<std::size_t>(std::max<std::int64_t>(1, jobs))));
  for (const double bytes : memory) total.memory += bytes;
  return total;
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

std::string dry_run_text(const Suite& suite, const SuiteCosts& costs, std::int64_t jobs,
                         const std::string& reach) {
  const SuiteEstimate total = estimate(suite, costs, jobs);
  std::string text = fmt::format(
      "dry run of {}: {}: {}\n{}{}{}", suite.name,
      runs_text(static_cast<std::int64_t>(suite.cells.size() + suite.absent.size())),
      counts_text(suite), left_out_text(suite), costs_table(suite, costs), problems_text(costs));
  if (!reach.empty()) text += fmt::format("\ncompare: {}\n", reach);
  if (total.runs > 0) {
    text += fmt::format("\n{} to do: about {} one after the other, ", runs_text(total.runs),
                        duration(total.seconds));
    if (jobs > 1) {
      text += fmt::format("not under {} with -j {}, ", duration(total.seconds_with(jobs)), jobs);
    }
    text += fmt::format("up to {} of memory{}\n", memory_text(total.memory),
                        jobs > 1 ? " at once" : "");
    text += uncounted_text(suite);
  }
  return text + "nothing was written\n";
}

}  // namespace attnlab
