#include "runner/engine/open_run.h"

namespace attnlab {

BuiltRun open_run(const RunFolder& folder, Registry& registry) {
  const Experiment experiment = folder.experiment(registry.catalogue());
  BuiltRun run = build_run(experiment, experiment.seeds.at(0), registry);
  load_model(run, folder);
  run.model->eval();
  return run;
}

}  // namespace attnlab
