#include "framework/train/evaluation.h"

#include <c10/core/GradMode.h>

#include "framework/data/loader.h"

namespace attnlab {
namespace {

/// Evaluation mode while it lives, training mode after it.
class EvaluationMode {
 public:
  EvaluationMode(Model& model, Task& task) : model_(model), task_(task) { train(false); }
  ~EvaluationMode() { train(true); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  void train(bool on) {
    model_.train(on);
    task_.train(on);
  }

  Model& model_;
  Task& task_;
};

void each_batch(const BuiltRun& run, Split split, const std::atomic<bool>& stop,
                const std::function<void(const Batch&)>& use) {
  const TrainOptions& train = run.experiment.train;
  LoaderSettings settings;
  settings.split = split;
  settings.workers = train.workers;
  settings.prefetch = train.prefetch;
  Loader loader(*run.dataset, run.streams, run.dataset->plan(evaluation_request(run, split)),
                settings);
  while (auto batch = loader.next()) {
    if (stop) throw Interrupted();
    use(to_device(*batch, run.device));
  }
}

}  // namespace

Metrics evaluate_split(BuiltRun& run, Split split, const std::atomic<bool>& stop) {
  const c10::NoGradGuard no_grad;
  const EvaluationMode mode(*run.model, *run.task);
  Evaluation evaluation{*run.model, run.dataset->info(), split, run.streams, {}};
  evaluation.batches = [&](Split of, const std::function<void(const Batch&)>& use) {
    each_batch(run, of, stop, use);
  };
  return run.task->evaluate(evaluation);
}

Metrics concluded(BuiltRun& run, Metrics test, const std::atomic<bool>& stop) {
  const auto training = [&run, &stop] { return evaluate_split(run, Split::train, stop); };
  test.merge(run.task->conclude(training, test));
  return test;
}

}  // namespace attnlab
