#include "framework/comparison/settings.h"

#include <set>
#include <utility>
#include <vector>

namespace attnlab {
namespace {

/// "vit" of "vit,lr=0.001", as points of sweeps and grids are named (suites/grid.h).
std::string base_of(const std::string& experiment) {
  const std::size_t comma = experiment.find(',');
  const bool point = comma != std::string::npos && experiment.find('=', comma) != std::string::npos;
  return point ? experiment.substr(0, comma) : experiment;
}

std::string data_of(const RunRecord& run) {
  const auto found = run.environment.find("data.fingerprint");
  return found != run.environment.end() && !found->second.empty()
             ? found->second
             : to_flow(run.config.at("dataset"));
}

}  // namespace

std::map<std::string, std::string> settings_of(const RunCollection& collection) {
  std::map<std::string, std::string> bases;
  for (const SuiteRecord& suite : collection.suites) {
    for (const SuitePoint& point : suite.points) bases[point.experiment] = point.base;
  }
  std::map<std::string, const RunRecord*> first;  // by experiment: the run of the smallest seed
  for (const RunRecord& run : collection.runs) {
    const RunRecord*& known = first[run.experiment];
    if (known == nullptr || run.seed < known->seed) known = &run;
  }
  using Key = std::pair<std::string, std::string>;  // base and data
  std::map<Key, std::vector<std::string>> groups;
  for (const auto& [experiment, run] : first) {
    const auto recorded = bases.find(experiment);
    const std::string base = recorded == bases.end() ? base_of(experiment) : recorded->second;
    groups[{base, data_of(*run)}].push_back(experiment);
  }
  std::map<std::string, std::string> settings;
  std::set<std::string> names;
  for (const auto& [key, experiments] : groups) {
    // Of a base with several data each group is called after its first point.
    const bool alone = experiments.size() == 1 || !names.insert(key.first).second;
    const std::string& name = alone ? experiments.front() : key.first;
    for (const std::string& experiment : experiments) settings[experiment] = name;
  }
  return settings;
}

}  // namespace attnlab
