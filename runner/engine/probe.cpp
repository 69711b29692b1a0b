// attnlab probe: what a run would cost, from building it and a few steps; writes nothing.
#include <fmt/format.h>
#include <iostream>
#include <optional>

#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/base/parsed_json.h"
#include "framework/train/costs.h"
#include "framework/train/step.h"
#include "framework/train/task_check.h"
#include "framework/train/training_parts.h"
#include "runner/engine/engine.h"
#include "runner/engine/open_run.h"
#include "runner/usages.h"

namespace attnlab {
namespace {

std::int64_t steps_of(const Arguments& arguments) {
  const auto steps = Node::scalar(arguments.text("steps", "3")).as_int();
  if (!steps || *steps < 0 || *steps > 1000) {
    throw ConfigError(fmt::format("--steps: expected a number of steps from 0 to 1000, found '{}'",
                                  arguments.text("steps", "")));
  }
  return *steps;
}

Node node_of(const nlohmann::json& value) {
  if (value.is_string()) return Node::scalar(value.get<std::string>(), {}, true);
  if (!value.is_structured()) return value.is_null() ? Node() : Node::scalar(value.dump());
  Node node = value.is_array() ? Node::list() : Node::map();
  for (const auto& [key, inner] : value.items()) {
    if (value.is_array()) {
      node.items().push_back(node_of(inner));
    } else {
      node.set(key, node_of(inner));
    }
  }
  return node;
}

/// What is wrong with the training of a run, and with it where other values stand in `train`;
/// empty: nothing. The first that is sound becomes the run's.
/// @param others  maps of what stands in `train` then, each of the same keys
/// @throws ConfigError where none is: what is wrong with the first.
std::vector<std::string> training_problems(const nlohmann::json& others, BuiltRun& run) {
  std::vector<std::string> problems;
  std::optional<Node> sound;
  const std::vector<OptimizedParameter> parameters = trained_parameters(run);
  Node& train = *run.experiment.resolved.find("train");
  const auto attempt = [&] {
    problems.emplace_back();
    try {
      run.experiment.train = read_options<TrainOptions>(train);
      check_training(run, parameters);
      if (!sound) sound = train;
    } catch (const ConfigError& error) {
      problems.back() = error.what();
    }
  };
  attempt();
  for (const nlohmann::json& other : others) {
    for (const auto& [key, value] : other.items()) train.set(key, node_of(value));
    attempt();
  }
  if (!sound) throw ConfigError(problems.front());
  run.experiment.train = read_options<TrainOptions>(*sound);
  train = std::move(*sound);
  return problems;
}

}  // namespace

int probe_command(const Words& words) {
  Usage usage = probe_usage();
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const std::int64_t steps = steps_of(arguments);
  Registry registry(Catalogue::of_this_program());
  const Experiment experiment =
      experiment_of(arguments.words[0], arguments.overrides, registry.catalogue());
  nlohmann::json also = nlohmann::json::array();
  if (arguments.has("also")) also = parsed_json_file(arguments.text("also", ""));
  try {
    BuiltRun run = build_run(experiment, experiment.seeds.at(0), registry);
    check_tasks(run, registry);
    std::vector<std::string> problems;
    if (steps > 0) {
      problems = training_problems(also, run);
      rehearse_run(run, RunFolder(arguments.words[0]));  // of a file there is no checkpoint
    }
    RunForecast forecast = probe_run(run, steps);
    if (arguments.has("also")) forecast.problems = problems;
    std::cout << probe_line(forecast);
  } catch (const DataMissingError& error) {
    std::cerr << fmt::format("attnlab probe: {}\n", message_text(error.what()));
    return kDataMissing;
  }
  return kDone;
}

}  // namespace attnlab
