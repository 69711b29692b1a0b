#include "framework/train/task_check.h"

#include "framework/experiment/identity.h"
#include "framework/train/overlay.h"

namespace attnlab {

void check_tasks(const BuiltRun& run, Registry& registry) {
  const Experiment& base = run.experiment;
  for (const EvaluationEntry& entry : evaluations_of(base, registry.catalogue())) {
    const auto same = [&](const char* part) {
      return canonical_text(base.resolved.at(part)) ==
             canonical_text(entry.experiment.resolved.at(part));
    };
    const bool task_alone = same("dataset") && same("model") && same("attention");
    if (task_alone && !entry.average()) overlaid(run, entry, registry);
  }
}

}  // namespace attnlab
