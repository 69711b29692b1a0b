#include "runner/probe_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include "framework/base/files.h"
#include "framework/base/side_by_side.h"
#include "framework/base/text.h"
#include "framework/experiment/keys.h"
#include "framework/runs/kept_python.h"
#include "runner/arguments.h"
#include "runner/process.h"

namespace attnlab {
namespace {

/// A text without the name of a scratch file, which is nobody's.
std::string without_file(std::string text, const std::string& file) {
  for (std::size_t at = text.find(file); at != std::string::npos; at = text.find(file, at)) {
    // With its line and column.
    const std::size_t end = text.find_first_not_of("0123456789: ", at + file.size());
    text.erase(at, (end == std::string::npos ? text.size() : end) - at);
  }
  return text;
}

/// What the engine said when it ended badly.
std::string complaint(const ProcessResult& result, const std::string& log,
                      const std::string& file) {
  std::string said = without_file(log_tail(log, 20), file);
  const std::string prefix = "attnlab probe: ";
  if (said.rfind(prefix, 0) == 0) said.erase(0, prefix.size());
  if (result.signal != 0) said += (said.empty() ? "" : "; ") + signal_text(result.signal);
  return said.empty() ? "the experiment cannot be built" : said;
}

void write_experiment(const Experiment& experiment, const std::string& file) {
  Node config = experiment.resolved;
  Node seeds = Node::list();
  seeds.items().push_back(Node::scalar("0"));  // Identity::data is that of seed 0
  config.set("seeds", std::move(seeds));
  write_file(file, to_yaml(config));
}

/// In what the training of experiments of one cost (cost_key) differs, as JSON.
void write_differences(const std::vector<const Experiment*>& experiments, const std::string& file) {
  std::vector<std::string> sections;
  sections.reserve(experiments.size());
  for (const Experiment* one : experiments) {
    sections.push_back(
        canonical_text(one->resolved.at("train"), [](const KeyPath& path, const Node&) {
          return role_of({"train", path.front()}) == Role::cost;
        }));
  }
  write_file(file, fmt::format("[{}]", join(sections, ",\n")));
}

/// The costs of experiments that cost the same, each with its own problem.
std::vector<RunForecast> measured_costs(const std::vector<const Experiment*>& experiments,
                                        std::int64_t steps, ForkServer& server) {
  RunForecast costs;
  try {
    costs = probe_experiment(*experiments.front(), steps, server,
                             {experiments.begin() + 1, experiments.end()});
  } catch (const ConfigError& error) {
    costs.problem = error.what();
  }
  const std::vector<std::string> problems = std::move(costs.problems);
  std::vector<RunForecast> all(experiments.size(), costs);
  for (std::size_t i = 0; i < std::min(all.size(), problems.size()); ++i) {
    all[i].problem = problems[i];
  }
  return all;
}

}  // namespace

RunForecast probe_experiment(const Experiment& experiment, std::int64_t steps, ForkServer& server,
                             const std::vector<const Experiment*>& also) {
  const ScratchFolder scratch;
  const std::string file = scratch.file("experiment.yaml"), log = scratch.file("log.txt");
  write_experiment(experiment, file);
  keep_python_files(experiment, std::filesystem::path(file).parent_path().string());
  Words words = {"probe", file, "--steps", std::to_string(steps)};
  if (!also.empty()) {
    words.insert(words.end(), {"--also", scratch.file("also.json")});
    write_differences(also, words.back());
  }
  std::string answer;
  const ProcessResult result = run_self(words, log,
                                        [&](const std::string& line) {
                                          if (!line.empty() && line[0] == '{') answer = line;
                                        },
                                        {.server = &server});
  if (result.exit_code == kDataMissing) throw DataMissingError(complaint(result, log, file));
  if (!result.ok() || answer.empty()) throw ConfigError(complaint(result, log, file));
  RunForecast costs = parse_probe(answer);
  for (std::string& problem : costs.problems) problem = without_file(std::move(problem), file);
  return costs;
}

DataOf ask_data(const std::vector<Cell>& cells, ForkServer& server) {
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
  return [by_section, &server](const Experiment& experiment) {
    const std::string section = canonical_text(experiment.resolved.at("dataset"));
    std::string problem;
    for (const Experiment& one : by_section->at(section)) {
      try {
        return probe_experiment(one, 0, server).data;
      } catch (const ConfigError& error) {
        if (problem.empty()) problem = error.what();
      }
      if (interrupted()) return std::string();  // which ended the engine too
    }
    throw ConfigError(problem);
  };
}

SuiteForecast measure_costs(const Suite& suite, std::int64_t steps, ForkServer& server) {
  constexpr std::size_t kCellsWorthAThread = 64;
  std::vector<std::string> keys(suite.cells.size());
  side_by_side(keys.size(), kCellsWorthAThread, [&](std::size_t i) {
    const Cell& cell = suite.cells[i];
    if (cell.action != CellAction::run) return;
    keys[i] = cost_key(cell.experiment);
    // They cost nothing here, and may be wrong; an entry may judge epochs.
    for (const char* key : {"evaluate", "trace"}) {
      const Node* section = cell.experiment.resolved.find(key);
      if (section != nullptr) keys[i] += canonical_text(*section);
    }
  });
  using Row = std::pair<std::string, std::string>;          // experiment and attention
  std::map<std::string, std::map<Row, const Cell*>> alike;  // a grid has many that cost the same
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Experiment& experiment = suite.cells[i].experiment;
    if (keys[i].empty()) continue;
    alike[keys[i]].emplace(Row(experiment.name, experiment.attention.label), &suite.cells[i]);
  }
  SuiteForecast costs;
  for (const auto& [key, rows] : alike) {
    if (interrupted()) break;
    std::vector<const Experiment*> experiments;
    for (const auto& [row, cell] : rows) experiments.push_back(&cell->experiment);
    const std::vector<RunForecast> measured = measured_costs(experiments, steps, server);
    std::size_t i = 0;
    for (const auto& [row, cell] : rows) costs[row] = measured[i++];
  }
  return costs;
}

}  // namespace attnlab
