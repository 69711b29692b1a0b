// What a run costs: parameters, FLOPs, time and memory.
//
//   measured   framework/train/costs.h, which needs a run that is built, and with it LibTorch
//   recorded   under the names of this file: parameters and FLOPs in environment.json, throughput
//              and memory among the metrics of status.json
//   foretold   framework/costs/forecast.h, from the few steps that `attnlab probe` measures
//   compared   framework/costs/ratios.h: an attention beside the baseline, over experiments
//
// Tables of `compare`, the chart of `report` and `page` show what is recorded; `suite --dry-run`
// shows what is foretold (framework/suites/dry_run.h). Energy is not measured.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace attnlab {

/// By name.
using Costs = std::map<std::string, double>;

inline constexpr const char* kParameters = "parameters";
inline constexpr const char* kFlops = "flops";  ///< of the forward pass of one example
/// The largest memory of the process, in bytes. Runs that are trained together share it.
inline constexpr const char* kPeakMemory = "peak_memory";
/// "examples_per_second". @param unit  what throughput counts, as plural: "examples", "tokens"
std::string throughput_name(const std::string& unit);
bool is_throughput(std::string_view name);

/// The names of all costs of a run, which environment.json has as "costs".
std::vector<std::string> cost_names(const std::string& unit = "examples");

/// The costs that a run recorded.
/// @param environment  of environment.json
/// @param metrics      of status.json
/// @throws nlohmann::json::exception where "costs" is not a list of names.
Costs read_costs(const nlohmann::json& environment, const std::map<std::string, double>& metrics);

}  // namespace attnlab
