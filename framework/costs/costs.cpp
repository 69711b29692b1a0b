#include "framework/costs/costs.h"

#include "framework/base/json.h"

namespace attnlab {
namespace {

constexpr std::string_view kPerSecond = "_per_second";

}  // namespace

std::string throughput_name(const std::string& unit) { return unit + std::string(kPerSecond); }

bool is_throughput(std::string_view name) {
  return name.size() > kPerSecond.size() && name.ends_with(kPerSecond);
}

std::vector<std::string> cost_names(const std::string& unit) {
  return {kParameters, kFlops, throughput_name(unit), kPeakMemory};
}

Costs read_costs(const nlohmann::json& environment, const std::map<std::string, double>& metrics) {
  const std::vector<std::string> names =
      environment.contains("costs") ? environment.at("costs").get<std::vector<std::string>>()
                                    : cost_names();  // of an earlier attnlab
  Costs costs;
  for (const std::string& name : names) {
    const auto metric = metrics.find(name);
    if (metric != metrics.end()) {
      costs.insert(*metric);
    } else if (environment.contains(name) && environment.at(name).is_number()) {
      costs[name] = environment.at(name);
    }
  }
  return costs;
}

}  // namespace attnlab
