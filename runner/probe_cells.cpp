#include "runner/probe_cells.h"

#include <memory>
#include <set>

#include "framework/base/files.h"
#include "runner/arguments.h"
#include "runner/process.h"

namespace attnlab {
namespace {

/// What the engine said when it ended badly, without the name of the scratch file.
std::string complaint(const ProcessResult& result, const std::string& log,
                      const std::string& file) {
  std::string said = log_tail(log, 20);
  for (std::size_t at = said.find(file); at != std::string::npos; at = said.find(file, at)) {
    // With its line and column, which are nobody's either.
    const std::size_t end = said.find_first_not_of("0123456789: ", at + file.size());
    said.erase(at, (end == std::string::npos ? said.size() : end) - at);
  }
  const std::string prefix = "attnlab probe: ";
  if (said.rfind(prefix, 0) == 0) said.erase(0, prefix.size());
  if (result.signal != 0) said += (said.empty() ? "" : "; ") + signal_text(result.signal);
  return said.empty() ? "the experiment cannot be built" : said;
}

CellCosts measured_costs(const Experiment& experiment, std::int64_t steps) {
  CellCosts costs;
  try {
    costs = probe_experiment(experiment, steps);
  } catch (const ConfigError& error) {
    costs.problem = error.what();
  }
  return costs;
}

}  // namespace

CellCosts probe_experiment(const Experiment& experiment, std::int64_t steps) {
  const ScratchFolder scratch;
  const std::string file = scratch.file("experiment.yaml"), log = scratch.file("log.txt");
  Node config = experiment.resolved;
  Node seeds = Node::list();
  seeds.items().push_back(Node::scalar("0"));  // Identity::data is that of seed 0
  config.set("seeds", std::move(seeds));
  write_file(file, to_yaml(config));
  std::string answer;
  const ProcessResult result = run_self({"probe", file, "--steps", std::to_string(steps)}, log,
                                        [&](const std::string& line) {
                                          if (!line.empty() && line[0] == '{') answer = line;
                                        });
  if (result.exit_code == kDataMissing) throw DataMissingError(complaint(result, log, file));
  if (!result.ok() || answer.empty()) throw ConfigError(complaint(result, log, file));
  return parse_probe(answer);
}

DataOf ask_data(const std::vector<Cell>& cells) {
  // Copies: `identify` replaces the cells while it asks.
  auto by_section = std::make_shared<std::map<std::string, std::vector<Experiment>>>();
  std::set<std::string> seen;
  for (const Cell& cell : cells) {
    const std::string section = canonical_text(cell.experiment.resolved.at("dataset"));
    std::vector<Experiment>& list = (*by_section)[section];
    // Another experiment is asked only with an attention that was not asked yet.
    if (seen.insert(section + cell.experiment.attention.label).second) {
      list.push_back(cell.experiment);
    }
  }
  return [by_section](const Experiment& experiment) {
    const std::string section = canonical_text(experiment.resolved.at("dataset"));
    std::string problem;
    for (const Experiment& one : by_section->at(section)) {
      try {
        return probe_experiment(one, 0).data;
      } catch (const ConfigError& error) {
        if (problem.empty()) problem = error.what();
      }
      if (interrupted()) return std::string();  // which ended the engine too
    }
    throw ConfigError(problem);
  };
}

SuiteCosts measure_costs(const Suite& suite, std::int64_t steps) {
  SuiteCosts costs;
  std::map<std::string, CellCosts> known;  // a grid has many points that cost the same
  for (const Cell& cell : suite.cells) {
    const auto key = std::make_pair(cell.experiment.name, cell.experiment.attention.label);
    if (cell.action != CellAction::run || costs.count(key) > 0 || interrupted()) continue;
    const auto [measured, is_new] = known.try_emplace(cost_key(cell.experiment));
    if (is_new) measured->second = measured_costs(cell.experiment, steps);
    costs[key] = measured->second;
  }
  return costs;
}

}  // namespace attnlab
