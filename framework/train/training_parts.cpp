#include "framework/train/training_parts.h"

#include <fmt/format.h>

#include <sstream>

#include "framework/config/compose.h"
#include "framework/train/entries.h"
#include "framework/train/step.h"

namespace attnlab {
namespace {

/// The task's, and those of the entries that are evaluated with each epoch.
std::vector<MetricInfo> metrics_to_judge_by(const BuiltRun& run) {
  std::vector<MetricInfo> metrics = run.task->metrics();
  if (run.each == nullptr) return metrics;
  const std::vector<MetricInfo> entries = run.each->metrics();
  metrics.insert(metrics.end(), entries.begin(), entries.end());
  return metrics;
}

std::unique_ptr<WeightAverage> average_of(const BuiltRun& run) {
  if (run.average_model == nullptr) return nullptr;
  auto average = std::make_unique<WeightAverage>();
  average->add(*run.model, *run.average_model);
  average->add(*run.task, *run.average_task);
  average->start();
  return average;
}

/// "train.optimizer.layer_decay: ..." with the place of that key, or of the nearest one above it.
std::string with_place(const std::string& problem, const Node& resolved) {
  std::string key = problem.substr(0, problem.find(": "));
  while (true) {
    const Node* const value = find_key(resolved, key);
    if (value != nullptr && !value->place().file.empty()) {
      return fmt::format("{}: {}", value->place().str(), problem);
    }
    const std::size_t dot = key.rfind('.');
    if (dot == std::string::npos) return problem;
    key.resize(dot);
  }
}

/// What `make` makes; what is wrong with a key is said with its place.
auto with_places(const BuiltRun& run, const auto& make) {
  try {
    return make();
  } catch (const ConfigError& error) {
    std::vector<std::string> problems;
    std::istringstream lines(error.what());
    for (std::string line; std::getline(lines, line);) {
      problems.push_back(with_place(line, run.experiment.resolved));
    }
    throw ConfigError(problems);
  }
}

Schedule schedule_of(const BuiltRun& run) {
  return make_schedule(run.experiment.train, run.steps_per_epoch, run.total_steps());
}

EpochSelection selection_of(const BuiltRun& run) {
  return {run.experiment.train, metrics_to_judge_by(run)};
}

}  // namespace

void prepare_training(BuiltRun& run) {
  run.parts = with_places(run, [&] {
    return std::make_shared<TrainingParts>(
        TrainingParts{make_optimizer(run), schedule_of(run), selection_of(run), average_of(run)});
  });
}

void check_training(const BuiltRun& run, const std::vector<OptimizedParameter>& parameters) {
  with_places(run, [&] {
    check_optimizer(parameters, run.experiment.train.optimizer);
    schedule_of(run);
    selection_of(run);
  });
}

TrainingParts take_training_parts(BuiltRun& run) {
  if (run.parts == nullptr) prepare_training(run);
  TrainingParts parts = std::move(*run.parts);
  run.parts.reset();
  return parts;
}

}  // namespace attnlab
