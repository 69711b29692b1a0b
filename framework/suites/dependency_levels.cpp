#include "framework/suites/dependency_levels.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "framework/base/error.h"
#include "framework/config/origins.h"
#include "framework/experiment/init_source.h"

namespace attnlab {
namespace {

/// The suite's experiment that a cell's run begins with: files are named after their experiments,
/// and a point of a grid (",lr=0.001") begins with the same point. Empty where there is none.
std::string source_of(const Cell& cell, const std::set<std::string>& names) {
  const auto& init = cell.experiment.init;
  if (!init || init->experiment.empty()) return "";
  std::string name = std::filesystem::path(init->experiment).stem().string();
  if (names.count(name) > 0) return name;
  const std::string& own = cell.experiment.name;
  std::string at_point = name + own.substr(std::min(own.find(','), own.size()));
  return names.count(at_point) > 0 ? at_point : "";
}

/// The first value that belongs to a suite's attention: by its `set:` or by `match:`. Null: none.
const Node* value_of_attention(const Node& node) {
  if (is_of_attention(node.place().str())) return &node;
  for (const auto& [key, value] : node.entries()) {
    if (const Node* found = value_of_attention(value)) return found;
  }
  return nullptr;
}

/// How many experiments stand before another one: its source, the source's source, and so on.
std::size_t depth_of(const std::string& name, const std::map<std::string, std::string>& sources) {
  std::size_t depth = 0;
  for (auto at = sources.find(name); at != sources.end(); at = sources.find(at->second)) {
    if (sources.count(at->second) == 0) break;
    if (++depth > sources.size()) {
      throw ConfigError(fmt::format(
          "init.experiment: '{}' and '{}' begin with each other; one of them must begin by itself",
          name, at->second));
    }
  }
  return depth;
}

}  // namespace

std::map<std::string, std::string> sources_in(const std::vector<Cell>& cells) {
  std::set<std::string> names;
  for (const Cell& cell : cells) names.insert(cell.experiment.name);
  std::map<std::string, std::string> sources;
  for (const Cell& cell : cells) sources[cell.experiment.name] = source_of(cell, names);
  return sources;
}

std::vector<std::vector<const Cell*>> dependency_levels(const std::vector<Cell>& cells) {
  const std::map<std::string, std::string> sources = sources_in(cells);
  std::vector<std::vector<const Cell*>> waves;
  for (const Cell& cell : cells) {
    const std::size_t depth = depth_of(cell.experiment.name, sources);
    if (waves.size() <= depth) waves.resize(depth + 1);
    waves[depth].push_back(&cell);
  }
  return waves;
}

void begin_with_each_other(std::vector<Cell>& cells, const std::string& root) {
  const std::map<std::string, std::string> sources = sources_in(cells);
  std::map<std::tuple<std::string, std::int64_t, std::string>, const Cell*> by_key;
  for (const Cell& cell : cells) {
    const Experiment& own = cell.experiment;
    by_key.emplace(std::tuple(own.name, cell.seed, own.attention.label), &cell);
  }
  for (const std::vector<const Cell*>& wave : dependency_levels(cells)) {
    for (const Cell* one : wave) {
      const Experiment& own = one->experiment;
      const std::string& name = sources.at(own.name);
      const auto source = by_key.find({name, one->seed, own.attention.label});
      if (name.empty() || source == by_key.end()) continue;
      Cell& cell = cells[static_cast<std::size_t>(one - cells.data())];
      const Experiment& first = source->second->experiment;
      const Node* mark = value_of_attention(first.resolved);
      set_source(
          cell.experiment, first.hash_without_attention(),
          mark == nullptr ? own.resolved.at("init").at("experiment").place() : mark->place());
      cell = make_cell(cell.experiment, cell.seed, root);
    }
  }
}

}  // namespace attnlab
