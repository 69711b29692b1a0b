#include "framework/comparison/domain_costs.h"

#include <cmath>
#include <set>

namespace attnlab {
namespace {

constexpr const char* kPerSecond = "_per_second";

bool is_speed(const std::string& name) {
  const std::string ending = kPerSecond;
  return name.size() > ending.size() &&
         name.compare(name.size() - ending.size(), ending.size(), ending) == 0;
}

using Group = std::vector<const RunRecord*>;

std::map<std::string, Group> by_experiment(const std::vector<RunRecord>& runs,
                                           const std::string& attention) {
  std::map<std::string, Group> groups;
  for (const RunRecord& run : runs) {
    if (run.attention == attention && run.done()) groups[run.experiment].push_back(&run);
  }
  return groups;
}

/// The mean of what the runs recorded; empty where one of them has nothing above zero.
std::optional<double> mean_cost(const Group& runs, const std::string& name) {
  double total = 0;
  for (const RunRecord* run : runs) {
    const auto found = run->costs.find(name);
    if (found == run->costs.end() || !std::isfinite(found->second) || found->second <= 0) {
      return std::nullopt;
    }
    total += found->second;
  }
  return total / static_cast<double>(runs.size());
}

std::string surroundings(const RunRecord& run) {
  std::string out;
  for (const char* key : {"machine.cpu", "device", "products", "kernel", "instructions", "threads",
                          "together", "libtorch"}) {
    const auto found = run.environment.find(key);
    out += (found == run.environment.end() ? "" : found->second) + ";";
  }
  return out;
}

bool same_surroundings(const Group& a, const Group& b) {
  std::set<std::string> seen;
  for (const Group* group : {&a, &b}) {
    for (const RunRecord* run : *group) seen.insert(surroundings(*run));
  }
  return seen.size() == 1;
}

std::string speed_of(const Group& runs) {
  for (const auto& [name, value] : runs.front()->costs) {
    if (is_speed(name)) return name;
  }
  return "";
}

/// A geometric mean that is taken step by step.
class Ratios {
 public:
  void add(const std::optional<double>& ours, const std::optional<double>& theirs) {
    if (!ours || !theirs) return;
    logarithms_ += std::log(*ours / *theirs);
    ++count_;
  }
  std::optional<double> mean() const {
    if (count_ == 0) return std::nullopt;
    return std::exp(logarithms_ / count_);
  }

 private:
  double logarithms_ = 0;
  int count_ = 0;
};

}  // namespace

CostRatios cost_ratios(const std::vector<RunRecord>& runs, const std::string& attention,
                       const std::string& baseline) {
  const auto ours = by_experiment(runs, attention), theirs = by_experiment(runs, baseline);
  Ratios time, memory, parameters, flops;
  for (const auto& [experiment, own] : ours) {
    const auto found = theirs.find(experiment);
    if (found == theirs.end()) continue;
    const Group& other = found->second;
    parameters.add(mean_cost(own, "parameters"), mean_cost(other, "parameters"));
    flops.add(mean_cost(own, "flops"), mean_cost(other, "flops"));
    if (!same_surroundings(own, other)) continue;
    const std::string speed = speed_of(own);
    time.add(mean_cost(other, speed), mean_cost(own, speed));  // slower takes longer
    memory.add(mean_cost(own, kPeakMemory), mean_cost(other, kPeakMemory));
  }
  return {time.mean(), memory.mean(), parameters.mean(), flops.mean()};
}

}  // namespace attnlab
