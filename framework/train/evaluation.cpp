#include "framework/train/evaluation.h"

#include <c10/core/GradMode.h>

#include "framework/data/loader.h"
#include "framework/train/step.h"

namespace attnlab {
namespace {

BatchSource batches_of(const BuiltRun& run, Split split, const std::atomic<bool>& stop) {
  return [&run, split, &stop](const std::function<void(const Batch&)>& use) {
    const TrainOptions& train = run.experiment.train;
    LoaderSettings settings;
    settings.split = split;
    settings.batch_size = train.eval_batch_size;
    settings.workers = train.workers;
    settings.prefetch = train.prefetch;
    Loader loader(*run.dataset, run.streams, in_order(run.dataset->size(split)), settings);
    while (auto batch = loader.next()) {
      if (stop) throw Interrupted();
      use(to_device(*batch, run.device));
    }
  };
}

}  // namespace

Metrics evaluate_split(BuiltRun& run, Split split, const std::atomic<bool>& stop) {
  const c10::NoGradGuard no_grad;
  run.model->eval();
  const BatchSource batches = batches_of(run, split, stop);
  Metrics all;
  for (const std::string& protocol : run.task->protocols()) {
    const std::string prefix = protocol == "clean" ? "" : protocol + "/";
    for (const auto& [name, value] : run.task->evaluate(protocol, *run.model, batches)) {
      all[prefix + name] = value;
    }
  }
  run.model->train();
  return all;
}

Metrics concluded(BuiltRun& run, Metrics test, const std::atomic<bool>& stop) {
  const auto training = [&run, &stop] {
    const c10::NoGradGuard no_grad;
    run.model->eval();
    Metrics metrics = run.task->evaluate("clean", *run.model, batches_of(run, Split::train, stop));
    run.model->train();
    return metrics;
  };
  test.merge(run.task->conclude(training, test));
  return test;
}

}  // namespace attnlab
