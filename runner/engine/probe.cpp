// attnlab probe: what a run would cost, from building it and a few steps; writes nothing.
#include <fmt/format.h>
#include <filesystem>
#include <iostream>

#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/experiment/compositions.h"
#include "framework/train/costs.h"
#include "framework/train/task_check.h"
#include "framework/train/training_parts.h"
#include "runner/engine/engine.h"
#include "runner/usages.h"

namespace attnlab {
namespace {

/// A run's frozen experiment, or a composed one.
Experiment experiment_of(const Arguments& arguments, const Catalogue& catalogue) {
  const std::string& what = arguments.words[0];
  if (!std::filesystem::exists(what + "/config.yaml")) {
    return load_experiment(find_composition(what, "experiments"), arguments.overrides, catalogue);
  }
  if (!arguments.overrides.empty()) {
    throw ConfigError(fmt::format("{}: a run's configuration is frozen; it takes no {}", what,
                                  arguments.overrides[0]));
  }
  return RunFolder(what).experiment(catalogue);
}

std::int64_t steps_of(const Arguments& arguments) {
  const auto steps = Node::scalar(arguments.text("steps", "3")).as_int();
  if (!steps || *steps < 0 || *steps > 1000) {
    throw ConfigError(fmt::format("--steps: expected a number of steps from 0 to 1000, found '{}'",
                                  arguments.text("steps", "")));
  }
  return *steps;
}

/// What is wrong with the training of experiments whose runs are built alike; empty: nothing. The
/// first that is sound becomes the run's.
/// @throws ConfigError where none is: what is wrong with the first.
std::vector<std::string> training_problems(const std::vector<Experiment>& experiments,
                                           BuiltRun& run) {
  std::vector<std::string> problems;
  const Experiment* sound = nullptr;
  for (const Experiment& experiment : experiments) {
    run.experiment = experiment;
    problems.emplace_back();
    try {
      take_training_parts(run);
      if (sound == nullptr) sound = &experiment;
    } catch (const ConfigError& error) {
      problems.back() = error.what();
    }
  }
  if (sound == nullptr) throw ConfigError(problems.front());
  run.experiment = *sound;
  return problems;
}

}  // namespace

int probe_command(const Words& words) {
  Usage usage = probe_usage();
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const std::int64_t steps = steps_of(arguments);
  Registry registry(Catalogue::of_this_program());
  std::vector<Experiment> experiments = {experiment_of(arguments, registry.catalogue())};
  if (arguments.has("also")) {
    for (const std::string& file : arguments.options["also"].as<Words>()) {
      experiments.push_back(load_experiment(file, {}, registry.catalogue()));
    }
  }
  try {
    BuiltRun run = build_run(experiments.front(), experiments.front().seeds.at(0), registry);
    check_tasks(run, registry);
    std::vector<std::string> problems;
    if (steps > 0) problems = training_problems(experiments, run);
    const ProbeResult result = probe_run(run, steps);
    nlohmann::json line = {{"data", run.dataset->info().fingerprint},
                           {"parameters", result.parameters},
                           {"flops", result.flops},
                           {"steps", result.steps},
                           {"step_seconds", result.step_seconds},
                           {"evaluation_seconds", result.evaluation_seconds},
                           {"peak_memory", result.peak_memory}};
    if (arguments.has("also")) line["problems"] = problems;
    std::cout << json_text(line, -1);
  } catch (const DataMissingError& error) {
    std::cerr << fmt::format("attnlab probe: {}\n", message_text(error.what()));
    return kDataMissing;
  }
  return kDone;
}

}  // namespace attnlab
