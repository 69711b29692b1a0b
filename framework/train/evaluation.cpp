#include "framework/train/evaluation.h"

#include <c10/core/GradMode.h>

#include "framework/data/loader.h"
#include "framework/train/step.h"

namespace attnlab {
namespace {

Metrics evaluated(BuiltRun& run, Split split, const std::atomic<bool>& stop) {
  const c10::NoGradGuard no_grad;
  Evaluation evaluation{*run.model, run.dataset->info(), split, run.streams, {}};
  evaluation.batches = [&run, &stop](Split of, const std::function<void(const Batch&)>& use) {
    const TrainOptions& train = run.experiment.train;
    LoaderSettings settings;
    settings.split = of;
    settings.workers = train.workers;
    settings.prefetch = train.prefetch;
    PlanRequest request;
    request.split = of;
    request.batch_size = train.eval_batch_size;
    request.streams = run.streams;
    Loader loader(*run.dataset, run.streams, run.dataset->plan(request), settings);
    while (auto batch = loader.next()) {
      if (stop) throw Interrupted();
      use(to_device(*batch, run.device));
    }
  };
  run.model->eval();
  run.task->eval();
  Metrics metrics = run.task->evaluate(evaluation);
  run.model->train();
  run.task->train();
  return metrics;
}

}  // namespace

Metrics evaluate_split(BuiltRun& run, Split split, const std::atomic<bool>& stop) {
  return evaluated(run, split, stop);
}

Metrics concluded(BuiltRun& run, Metrics test, const std::atomic<bool>& stop) {
  const auto training = [&run, &stop] { return evaluated(run, Split::train, stop); };
  test.merge(run.task->conclude(training, test));
  return test;
}

}  // namespace attnlab
