#include "runner/engine/open_run.h"

#include <fmt/format.h>

#include "framework/base/text.h"
#include "framework/train/environment.h"

namespace attnlab {

BuiltRun open_run(const RunFolder& folder, Registry& registry, bool accept) {
  const Experiment experiment = folder.experiment(registry.catalogue());
  BuiltRun run = build_run(experiment, experiment.seeds.at(0), registry);
  check_data(run, folder, accept);
  load_model(run, folder);
  run.model->eval();
  return run;
}

std::string note_on_changes(const BuiltRun& run, const RunFolder& folder) {
  const std::vector<std::string> changes = changes_for_results(run, folder);
  if (changes.empty()) return "";
  return fmt::format("{}: since this run began, {}; results of entries made now say so",
                     folder.path(), join(changes, ", "));
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
