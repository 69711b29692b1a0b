// attnlab eval: evaluates a run's checkpoint on the test split again.
#include <iostream>
#include <nlohmann/json.hpp>

#include "framework/base/files.h"
#include "framework/runs/metric_infos.h"
#include "framework/runs/metric_text.h"
#include "framework/train/environment.h"
#include "runner/engine/engine.h"
#include "runner/usages.h"

namespace attnlab {

int eval_command(const Words& words) {
  Usage usage = eval_usage();
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  Registry registry(Catalogue::of_this_program());
  const RunFolder folder(arguments.words[0]);
  const Experiment experiment = folder.experiment(registry.catalogue());
  BuiltRun run = build_run(experiment, experiment.seeds.at(0), registry);
  load_model(run, folder);
  Metrics metrics;
  try {
    metrics = evaluate_test(run, stop_requested());
  } catch (const Interrupted&) {
    return kInterrupted;
  }
  const std::string json = nlohmann::json(metrics).dump(2) + "\n";
  write_file(folder.file("evaluation.json"), json);
  if (arguments.has("json")) {
    std::cout << json;
    return kDone;
  }
  std::cout << RunFolder::label(experiment, run.seed) << "\n";
  const std::vector<MetricInfo> infos = run_metrics(run);
  for (const auto& [name, value] : metrics) {
    std::cout << "  " << name << "  " << metric_text(metric_or_plain(infos, name), value) << "\n";
  }
  return kDone;
}

}  // namespace attnlab
