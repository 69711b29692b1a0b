#include "framework/costs/ratios.h"

#include <cmath>
#include <set>

namespace attnlab {
namespace {

using Group = std::vector<RecordedCosts>;

/// The mean of what the runs recorded; empty where one of them has nothing above zero.
std::optional<double> mean_cost(const Group& runs, const std::string& name) {
  double total = 0;
  for (const RecordedCosts& run : runs) {
    const auto found = run.costs->find(name);
    if (found == run.costs->end() || !std::isfinite(found->second) || found->second <= 0) {
      return std::nullopt;
    }
    total += found->second;
  }
  return total / static_cast<double>(runs.size());
}

bool same_conditions(const Group& a, const Group& b) {
  std::set<std::string> seen;
  for (const Group* group : {&a, &b}) {
    for (const RecordedCosts& run : *group) seen.insert(run.conditions);
  }
  return seen.size() == 1;
}

std::string throughput_of(const Group& runs) {
  for (const auto& [name, value] : *runs.front().costs) {
    if (is_throughput(name)) return name;
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

std::string cost_conditions(const std::map<std::string, std::string>& environment) {
  std::string out;
  for (const char* key : {"machine.cpu", "device", "products", "kernel", "instructions", "threads",
                          "together", "libtorch"}) {
    const auto found = environment.find(key);
    out += (found == environment.end() ? "" : found->second) + ";";
  }
  return out;
}

CostRatios cost_ratios(const AttentionCosts& attention, const AttentionCosts& baseline) {
  Ratios time, memory, parameters, flops;
  for (const auto& [experiment, own] : attention) {
    const auto found = baseline.find(experiment);
    if (found == baseline.end()) continue;
    const Group& other = found->second;
    const auto add = [&own = own, &other](Ratios& ratios, const std::string& name) {
      ratios.add(mean_cost(own, name), mean_cost(other, name));
    };
    add(parameters, kParameters);
    add(flops, kFlops);
    if (!same_conditions(own, other)) continue;
    add(memory, kPeakMemory);
    const std::string throughput = throughput_of(own);
    time.add(mean_cost(other, throughput), mean_cost(own, throughput));  // slower takes longer
  }
  return {time.mean(), memory.mean(), parameters.mean(), flops.mean()};
}

}  // namespace attnlab
