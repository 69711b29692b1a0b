#include "framework/train/evaluation.h"

#include <ATen/Context.h>
#include <c10/core/GradMode.h>

#include <numeric>
#include <optional>

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

/// @param settings  what is not the run's own
/// @param use       may throw to end it
void each_batch(const BuiltRun& run, LoaderSettings settings, EpochPlan plan,
                const std::atomic<bool>& stop, const std::function<void(const Batch&)>& use) {
  const TrainOptions& train = run.experiment.train;
  settings.workers = train.workers;
  settings.prefetch = train.prefetch;
  Loader loader(*run.dataset, run.streams, std::move(plan), settings);
  while (true) {
    std::optional<Batch> batch;
    run.world->gather_made([&] {  // (which says whether to stop, too)
      batch = loader.next();
      if (batch) batch = to_device(*batch, run.device);
      return std::string();
    });
    if (!batch) return;
    if (stop) throw Interrupted();
    use(*batch);
  }
}

/// What the model makes of a batch. With `train.parts` what it draws depends on the batch's number
/// alone: not on the process, nor on what that ran before.
NamedTensors outputs_of(const BuiltRun& run, const Batch& batch, std::int64_t number,
                        NamedTensors& carried) {
  if (run.experiment.train.parts > 1) {
    at::manual_seed(run.streams.key("passes", static_cast<std::uint64_t>(number)));
  }
  ForwardPass pass;
  pass.carried = &carried;
  return run.model->forward(batch, pass);
}

using UseOutputs = std::function<void(const Batch&, const NamedTensors&)>;

/// One after the other. With `train.parts` outputs lie as those that came from another process, as
/// a sum's last bit may depend on that.
void each_own_pass(const BuiltRun& run, Split split, const EpochPlan& plan,
                   const std::atomic<bool>& stop, const UseOutputs& use) {
  NamedTensors carried;
  std::int64_t number = 0;
  each_batch(run, {.split = split}, plan, stop, [&](const Batch& batch) {
    if (!batch.continues) carried = {};
    NamedTensors outputs = outputs_of(run, batch, number++, carried);
    if (run.experiment.train.parts > 1) {
      for (const auto& [name, tensor] : NamedTensors(outputs)) {
        outputs.set(name, tensor.contiguous());
      }
    }
    use(batch, outputs);
  });
}

/// Each process runs every so-manieth batch; all get the outputs of all, in order, bit for bit. At
/// most as many batches are in memory as there are processes.
void each_shared_pass(const BuiltRun& run, Split split, const EpochPlan& plan,
                      const std::atomic<bool>& stop, const UseOutputs& use) {
  World& world = *run.world;
  std::vector<Batch> round;
  std::int64_t begin = 0;  // number of the round's first batch
  const auto run_round = [&] {
    const std::vector<std::string> all = world.gather_made([&] {
      const std::int64_t own = world.rank();
      NamedTensors outputs, carried;
      if (own < std::int64_t(round.size())) {
        outputs = outputs_of(run, round[static_cast<std::size_t>(own)], begin + own, carried);
      }
      return packed(outputs);
    });
    for (std::size_t i = 0; i < round.size(); ++i) {
      use(round[i], unpacked(all[i]).to(run.device));
    }
    begin += std::int64_t(round.size());
    round.clear();
  };
  each_batch(run, {.split = split}, plan, stop, [&](const Batch& batch) {
    round.push_back(batch);
    if (std::int64_t(round.size()) == world.size()) run_round();
  });
  if (!round.empty()) run_round();
}

/// Batches that continue each other cannot be shared out: each process runs all of them.
void each_pass(const BuiltRun& run, Split split, const EpochPlan& plan,
               const std::atomic<bool>& stop, const UseOutputs& use) {
  const bool shared = run.world->size() > 1 && !plan.continues;
  (shared ? each_shared_pass : each_own_pass)(run, split, plan, stop, use);
}

EpochPlan whole_plan(const BuiltRun& run, Split split) {
  return run.dataset->plan(evaluation_request(run, split));
}

/// A split as it is evaluated.
void each_of_split(const BuiltRun& run, Split split, const std::atomic<bool>& stop,
                   const std::function<void(const Batch&)>& use) {
  each_batch(run, {.split = split}, whole_plan(run, split), stop, use);
}

/// An epoch of training, of which no example is left out.
void each_of_epoch(const BuiltRun& run, std::uint64_t epoch, const std::atomic<bool>& stop,
                   const std::function<void(const Batch&)>& use) {
  PlanRequest request = training_request(run, epoch);
  request.drop_last = false;
  each_batch(run, {.split = Split::train, .augment = true, .epoch = epoch},
             run.dataset->plan(request), stop, use);
}

/// Without batches of the split that is evaluated.
Evaluation evaluation_of(BuiltRun& run, Split split, const std::atomic<bool>& stop,
                         Fitted& fitted) {
  Evaluation evaluation{*run.model, run.dataset->info(), split, run.streams, {}};
  evaluation.training = [&run, &stop](std::uint64_t epoch,
                                      const std::function<void(const Batch&)>& use) {
    each_of_epoch(run, epoch, stop, use);
  };
  evaluation.fitted = &fitted;
  return evaluation;
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

Metrics evaluate_split(BuiltRun& run, Split split, const std::atomic<bool>& stop, Fitted* fitted) {
  const c10::NoGradGuard no_grad;
  const EvaluationModeOfBoth mode(*run.model, *run.task);
  Fitted own;
  Evaluation evaluation = evaluation_of(run, split, stop, fitted == nullptr ? own : *fitted);
  evaluation.batches = [&](Split of, const std::function<void(const Batch&)>& use) {
    each_of_split(run, of, stop, use);
  };
  evaluation.passes = [&](Split of, const UseOutputs& use) {
    each_pass(run, of, whole_plan(run, of), stop, use);
  };
  const WorkingFolder home;
  Metrics metrics = run.task->evaluate(evaluation);
  home.check("an evaluation");
  return metrics;
}

void evaluate_examples(BuiltRun& run, Split split, const std::atomic<bool>& stop,
                       const std::function<void(const ExampleMetrics&)>& use, Fitted* fitted) {
  const c10::NoGradGuard no_grad;
  const EvaluationModeOfBoth mode(*run.model, *run.task);
  const WorkingFolder home;
  const EpochPlan plan = one_by_one(whole_plan(run, split));
  auto example = plan.order.begin();
  Fitted own;
  each_batch(run, {.split = split}, plan, stop, [&](const Batch& one) {
    const std::int64_t index = *example++;
    const double terms = run.task->weight(one);
    if (terms == 0) return;
    Evaluation evaluation = evaluation_of(run, split, stop, fitted == nullptr ? own : *fitted);
    evaluation.batches = [&](Split of, const std::function<void(const Batch&)>& take) {
      if (of == split) return take(one);
      each_of_split(run, of, stop, take);
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
