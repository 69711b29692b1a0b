#include "framework/costs/forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "framework/base/json.h"
#include "framework/base/parsed_json.h"
#include "framework/experiment/canonical.h"
#include "framework/experiment/keys.h"

namespace attnlab {

using nlohmann::json;

std::string probe_line(const RunForecast& run) {
  json line = {{"data", run.data},
               {"parameters", run.parameters},
               {"flops", run.flops},
               {"steps", run.steps},
               {"step_seconds", run.step_seconds},
               {"evaluation_seconds", run.evaluation_seconds},
               {"peak_memory", run.peak_memory}};
  if (!run.problems.empty()) line["problems"] = run.problems;
  return json_text(line, -1);
}

RunForecast parse_probe(const std::string& line) {
  try {
    const json in = parsed_json(line);
    RunForecast run;
    in.at("data").get_to(run.data);
    in.at("parameters").get_to(run.parameters);
    in.at("flops").get_to(run.flops);
    in.at("steps").get_to(run.steps);
    in.at("step_seconds").get_to(run.step_seconds);
    in.at("evaluation_seconds").get_to(run.evaluation_seconds);
    in.at("peak_memory").get_to(run.peak_memory);
    run.problems = in.value("problems", run.problems);
    return run;
  } catch (const json::exception& error) {
    throw Error(fmt::format("attnlab probe printed something else than costs: {} ({})",
                            line.substr(0, 200), error.what()));
  }
}

std::string cost_key(const Experiment& experiment) {
  const auto costs_nothing = [](const KeyPath& path, const Node&) {
    const std::string_view key = path.back();
    if (key == "seed" || key.ends_with("_seed")) return true;  // it only chooses random numbers
    return role_of(path) < Role::cost;
  };
  return experiment.train.optimizer.use + canonical_text(experiment.resolved, costs_nothing);
}

double TotalForecast::seconds_with(std::int64_t jobs) const {
  return std::max(longest, seconds / static_cast<double>(std::max<std::int64_t>(1, jobs)));
}

TotalForecast total_of(const std::vector<RunToDo>& runs, std::int64_t jobs) {
  TotalForecast total;
  std::vector<std::int64_t> memory;
  for (const auto& [forecast, left] : runs) {
    ++total.runs;
    total.seconds += left * forecast->seconds();
    total.longest = std::max(total.longest, left * forecast->seconds());
    memory.push_back(forecast->peak_memory);
  }
  std::sort(memory.begin(), memory.end(), std::greater<>());
  memory.resize(std::min(memory.size(), static_cast<std::size_t>(std::max<std::int64_t>(1, jobs))));
  for (const std::int64_t bytes : memory) total.memory += static_cast<double>(bytes);
  return total;
}

}  // namespace attnlab
