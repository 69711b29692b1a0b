#include "framework/comparison/settings.h"

#include <algorithm>
#include <cstdint>
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

/// What the runs of one experiment say of its data.
struct RecordedData {
  std::map<std::int64_t, std::string> fingerprints;  ///< by seed, of runs that recorded one
  std::string section;                               ///< `dataset`

  /// Those of a seed; else of the smallest that has any; without any the section.
  const std::string& of(std::int64_t seed) const {
    if (fingerprints.empty()) return section;
    const auto found = fingerprints.find(seed);
    return found == fingerprints.end() ? fingerprints.begin()->second : found->second;
  }
};

using DataByExperiment = std::map<std::string, RecordedData>;

DataByExperiment recorded_data(const RunCollection& collection) {
  DataByExperiment data;
  for (const RunRecord& run : collection.runs) {
    RecordedData& own = data[run.experiment];
    const Node* section = run.config.find("dataset");
    if (own.section.empty() && section != nullptr) own.section = to_flow(*section);
    const auto found = run.environment.find("data.fingerprint");
    if (found == run.environment.end() || found->second.empty()) continue;
    own.fingerprints.emplace(run.seed, found->second);
  }
  return data;
}

/// The seed that most of the experiments recorded data of; the smallest of several.
std::int64_t shared_seed(const std::vector<std::string>& experiments,
                         const DataByExperiment& data) {
  std::map<std::int64_t, std::size_t> counts;
  for (const std::string& experiment : experiments) {
    for (const auto& [seed, fingerprint] : data.at(experiment).fingerprints) ++counts[seed];
  }
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? 0 : most->first;
}

}  // namespace

std::map<std::string, std::string> settings_of(const RunCollection& collection) {
  std::map<std::string, std::string> bases;
  for (const SuiteRecord& suite : collection.suites) {
    for (const SuitePoint& point : suite.points) bases[point.experiment] = point.base;
  }
  const DataByExperiment data = recorded_data(collection);
  std::map<std::string, std::vector<std::string>> points;  // by base
  for (const auto& [experiment, own] : data) {
    const auto recorded = bases.find(experiment);
    points[recorded == bases.end() ? base_of(experiment) : recorded->second].push_back(experiment);
  }
  using Key = std::pair<std::string, std::string>;  // base and data
  std::map<Key, std::vector<std::string>> groups;
  for (const auto& [base, experiments] : points) {
    const std::int64_t seed = shared_seed(experiments, data);
    for (const std::string& experiment : experiments) {
      groups[{base, data.at(experiment).of(seed)}].push_back(experiment);
    }
  }
  std::map<std::string, std::string> settings;
  std::set<std::string> names;  // a base that another group's first point is called is not free
  for (const auto& [key, experiments] : groups) names.insert(experiments.front());
  for (const auto& [key, experiments] : groups) {
    // Of a base with several data each group is called after its first point.
    const bool alone = experiments.size() == 1 || !names.insert(key.first).second;
    const std::string& name = alone ? experiments.front() : key.first;
    for (const std::string& experiment : experiments) settings[experiment] = name;
  }
  return settings;
}

}  // namespace attnlab
