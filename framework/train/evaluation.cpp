#include "framework/train/evaluation.h"

#include <c10/core/GradMode.h>

#include <numeric>

#include "framework/data/loader.h"
#include "framework/host/working_folder.h"

namespace attnlab {
namespace {

/// Evaluation mode while it lives, training mode after it.
class EvaluationModeOfBoth {
 public:
  EvaluationModeOfBoth(Model& model, Task& task) : model_(model), task_(task) { train(false); }
  ~EvaluationModeOfBoth() { train(true); }
  EvaluationModeOfBoth(const EvaluationModeOfBoth&) = delete;
  EvaluationModeOfBoth& operator=(const EvaluationModeOfBoth&) = delete;

 private:
  void train(bool on) {
    model_.train(on);
    task_.train(on);
  }

  Model& model_;
  Task& task_;
};

/// @param use  may throw to end it
void each_batch(const BuiltRun& run, Split split, EpochPlan plan, const std::atomic<bool>& stop,
                const std::function<void(const Batch&)>& use) {
  const TrainOptions& train = run.experiment.train;
  LoaderSettings settings;
  settings.split = split;
  settings.workers = train.workers;
  settings.prefetch = train.prefetch;
  Loader loader(*run.dataset, run.streams, std::move(plan), settings);
  while (auto batch = loader.next()) {
    if (stop) throw Interrupted();
    use(to_device(*batch, run.device));
  }
}

EpochPlan whole_plan(const BuiltRun& run, Split split) {
  return run.dataset->plan(evaluation_request(run, split));
}

/// What the task measures, without what has no value here.
Metrics defined_metrics(const Task& task, Evaluation& evaluation) {
  try {
    return task.evaluate(evaluation);
  } catch (const UndefinedMetrics& some) {
    return some.others();
  }
}

/// The same examples, each a batch that continues nothing.
EpochPlan one_by_one(EpochPlan plan) {
  plan.continues = false;
  plan.ends.resize(plan.order.size());
  std::iota(plan.ends.begin(), plan.ends.end(), 1);
  return plan;
}

}  // namespace

Metrics evaluate_split(BuiltRun& run, Split split, const std::atomic<bool>& stop) {
  const c10::NoGradGuard no_grad;
  const EvaluationModeOfBoth mode(*run.model, *run.task);
  Evaluation evaluation{*run.model, run.dataset->info(), split, run.streams, {}};
  evaluation.batches = [&](Split of, const std::function<void(const Batch&)>& use) {
    each_batch(run, of, whole_plan(run, of), stop, use);
  };
  const WorkingFolder home;
  Metrics metrics = run.task->evaluate(evaluation);
  home.check("an evaluation");
  return metrics;
}

void evaluate_examples(BuiltRun& run, Split split, const std::atomic<bool>& stop,
                       const std::function<void(const ExampleMetrics&)>& use) {
  const c10::NoGradGuard no_grad;
  const EvaluationModeOfBoth mode(*run.model, *run.task);
  const WorkingFolder home;
  const EpochPlan plan = one_by_one(whole_plan(run, split));
  auto example = plan.order.begin();
  each_batch(run, split, plan, stop, [&](const Batch& one) {
    const std::int64_t index = *example++;
    const double terms = run.task->weight(one);
    if (terms == 0) return;
    Evaluation evaluation{*run.model, run.dataset->info(), split, run.streams, {}};
    evaluation.batches = [&](Split of, const std::function<void(const Batch&)>& take) {
      if (of == split) return take(one);
      each_batch(run, of, whole_plan(run, of), stop, take);
    };
    use({index, terms, defined_metrics(*run.task, evaluation)});
  });
  home.check("an evaluation");
}

Metrics concluded(BuiltRun& run, Metrics test, const std::atomic<bool>& stop) {
  const auto training = [&run, &stop] { return evaluate_split(run, Split::train, stop); };
  const WorkingFolder home;
  test.merge(run.task->conclude(training, test));
  home.check("the conclusion of a run");
  return test;
}

}  // namespace attnlab
