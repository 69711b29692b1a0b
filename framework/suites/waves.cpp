#include "framework/suites/waves.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <string>

#include "framework/base/error.h"

namespace attnlab {
namespace {

/// The experiment that a cell's run begins with; empty where it begins with none. Files are named
/// after their experiments.
std::string source_of(const Cell& cell) {
  const auto& init = cell.experiment.init;
  return init ? std::filesystem::path(init->experiment).stem().string() : "";
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

std::vector<std::vector<const Cell*>> waves_of(const std::vector<Cell>& cells) {
  std::map<std::string, std::string> sources;
  for (const Cell& cell : cells) sources[cell.experiment.name] = source_of(cell);
  std::vector<std::vector<const Cell*>> waves;
  for (const Cell& cell : cells) {
    const std::size_t depth = depth_of(cell.experiment.name, sources);
    if (waves.size() <= depth) waves.resize(depth + 1);
    waves[depth].push_back(&cell);
  }
  return waves;
}

}  // namespace attnlab
