#include "plugins/tasks/series/sequence_classification/outcome.h"

#include <fmt/format.h>

#include <cmath>

namespace attnlab {
namespace {

constexpr RunOutcome kOutcomes[] = {RunOutcome::correct, RunOutcome::biased, RunOutcome::degenerate,
                                    RunOutcome::other};

void check_pair(const std::vector<double>& bounds, const std::string& name) {
  if (bounds.size() == 2 && bounds[0] <= bounds[1]) return;
  throw OptionError(name, "must be two numbers, the lower and the upper bound, e.g. [0.2, 0.4]");
}

bool within(double value, const std::vector<double>& bounds) {
  return value >= bounds.at(0) && value <= bounds.at(1);
}

double accuracy_of(const Metrics& metrics, const char* split) {
  const auto found = metrics.find("accuracy");
  if (found != metrics.end()) return found->second;
  throw Error(fmt::format("outcome: the metrics of the {} split have no accuracy", split));
}

}  // namespace

std::string_view name_of(RunOutcome outcome) {
  switch (outcome) {
    case RunOutcome::correct:
      return "correct";
    case RunOutcome::biased:
      return "biased";
    case RunOutcome::degenerate:
      return "degenerate";
    case RunOutcome::other:
      return "other";
  }
  throw Error(fmt::format("RunOutcome has no value {}", static_cast<int>(outcome)));
}

void check_outcomes(const OutcomeOptions& options, const std::string& prefix) {
  check_pair(options.biased_training, prefix + "biased_training");
  check_pair(options.biased_test, prefix + "biased_test");
}

RunOutcome outcome_of(double training, double test, std::int64_t classes,
                      const OutcomeOptions& options) {
  if (training > options.correct_above && test > options.correct_above) return RunOutcome::correct;
  if (within(training, options.biased_training) && within(test, options.biased_test)) {
    return RunOutcome::biased;
  }
  const double chance = 1 / static_cast<double>(classes);
  const bool guesses = std::abs(training - chance) <= options.chance_margin &&
                       std::abs(test - chance) <= options.chance_margin;
  return guesses ? RunOutcome::degenerate : RunOutcome::other;
}

Metrics outcome_metrics(const Metrics& training, const Metrics& test, std::int64_t classes,
                        const OutcomeOptions& options) {
  const RunOutcome found =
      outcome_of(accuracy_of(training, "training"), accuracy_of(test, "test"), classes, options);
  Metrics metrics;
  for (const auto& [name, value] : training) metrics["training/" + name] = value;
  for (const RunOutcome outcome : kOutcomes) {
    metrics["outcome/" + std::string(name_of(outcome))] = outcome == found ? 1 : 0;
  }
  return metrics;
}

std::vector<MetricInfo> outcome_infos() {
  std::vector<MetricInfo> infos;
  for (const RunOutcome outcome : kOutcomes) {
    const Better better = outcome == RunOutcome::correct ? Better::higher : Better::neither;
    infos.push_back({"outcome/" + std::string(name_of(outcome)), better, "share of runs"});
  }
  return infos;
}

}  // namespace attnlab
