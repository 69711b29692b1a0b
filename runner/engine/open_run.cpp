#include "runner/engine/open_run.h"

#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "framework/base/text.h"
#include "framework/experiment/compositions.h"
#include "framework/train/environment.h"

namespace attnlab {

Experiment experiment_of(const std::string& what, const std::vector<std::string>& overrides,
                         const Catalogue& catalogue) {
  if (!std::filesystem::exists(what + "/config.yaml")) {
    return load_experiment(find_composition(what, "experiments"), overrides, catalogue);
  }
  if (!overrides.empty()) {
    throw ConfigError(
        fmt::format("{}: a run's configuration is frozen; it takes no {}", what, overrides[0]));
  }
  return RunFolder(what).experiment(catalogue);
}

BuiltRun open_run(const RunFolder& folder, Registry& registry, bool accept) {
  const Experiment experiment = folder.experiment(registry.catalogue());
  look_for_data_of(folder);
  BuiltRun run = build_run(experiment, experiment.seeds.at(0), registry);
  check_data(run, folder, accept);
  const std::string note = note_on_changes(run, folder, /*entries=*/false);
  if (!note.empty()) std::cerr << "attnlab: " << note << "\n";
  load_model(run, folder);
  run.model->eval();
  return run;
}

std::string note_on_changes(const BuiltRun& run, const RunFolder& folder, bool entries) {
  const std::vector<std::string> changes = changes_for_results(run, folder);
  if (changes.empty()) return "";
  return fmt::format("{}: since this run began, {}; {}", folder.path(), join(changes, ", "),
                     entries ? "results of entries made now say so"
                             : "its answers now are made with what is here now");
}

void check_data(const BuiltRun& run, const RunFolder& folder, bool accept) {
  const std::string change = accept ? "" : change_of_data(run, folder);
  if (change.empty()) return;
  throw ChangedDataError(fmt::format(
      "{}: since this run began, {}, or this version or machine makes it otherwise; put back what "
      "it was trained on (an entry of `evaluate:` may name other data), or go on with "
      "--accept-changes",
      folder.path(), change));
}

}  // namespace attnlab
