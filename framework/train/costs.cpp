#include "framework/train/costs.h"

#include <c10/core/GradMode.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>

#include "framework/base/clock.h"
#include "framework/data/loader.h"
#include "framework/tensor/flop_counter.h"
#include "framework/tensor/torch_compat.h"
#include "framework/train/optimizer.h"
#include "framework/train/step.h"

namespace attnlab {
namespace {

/// The bytes of "VmHWM:   1234 kB"; 0 without such a line.
std::int64_t resident_peak() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stoll(line.substr(6)) * 1024;
  }
  return 0;
}

/// The plan's first batch, without augmentation, on the run's device.
Batch first_batch(const BuiltRun& run, const PlanRequest& request) {
  LoaderSettings settings;
  settings.split = request.split;
  settings.workers = 0;
  Loader loader(*run.dataset, run.streams, run.dataset->plan(request), settings);
  return to_device(*loader.next(), run.device);
}

/// Whether examples differ in shape, so that one does not stand for all.
bool uneven(const DatasetInfo& data) {
  return std::any_of(data.fields.begin(), data.fields.end(), [](const FieldInfo& field) {
    return field.name.find('@') != std::string::npos ||
           std::count(field.shape.begin(), field.shape.end(), -1) > 0;
  });
}

/// So many batches of training, from the first epoch's plan, and from its beginning again where
/// that has fewer.
EpochPlan repeated(const EpochPlan& plan, std::int64_t batches) {
  EpochPlan out{{}, {}, plan.continues};
  for (std::int64_t i = 0; i < batches; ++i) {
    const auto batch = static_cast<std::size_t>(i % plan.batches());
    const std::int64_t begin = batch == 0 ? 0 : plan.ends[batch - 1];
    out.order.insert(out.order.end(), plan.order.begin() + begin,
                     plan.order.begin() + plan.ends[batch]);
    out.ends.push_back(static_cast<std::int64_t>(out.order.size()));
  }
  return out;
}

/// Seconds of one training step, after one that is not counted.
double time_steps(BuiltRun& run, std::int64_t steps) {
  const TrainOptions& train = run.experiment.train;
  const EpochPlan plan = repeated(training_plan(run, 0), steps + 1);
  NamedTensors carried;
  LoaderSettings settings;
  settings.augment = true;
  settings.workers = train.workers;
  settings.prefetch = train.prefetch;
  Loader loader(*run.dataset, run.streams, plan, settings);
  Optimizer optimizer = make_optimizer(run);
  const AfterStep after_step(run);
  run.model->train();
  run.task->train();
  Clock::time_point begin = Clock::now();
  for (std::int64_t step = 0; step <= steps; ++step) {
    backward(run, to_device(*loader.next(), run.device),
             {.number = step, .carried = plan.continues ? &carried : nullptr});
    optimizer.step();
    after_step({step, optimizer.learning_rate()});
    optimizer.zero_grad();
    if (step == 0) begin = Clock::now();
  }
  return seconds_since(begin) / static_cast<double>(steps);
}

std::int64_t batches_of(const BuiltRun& run, Split split) {
  return run.dataset->plan(evaluation_request(run, split)).batches();
}

/// Batches that all evaluations of a run read.
std::int64_t evaluated_batches(const BuiltRun& run) {
  const TrainOptions& train = run.experiment.train;
  const std::int64_t times = (run.epochs() + train.evaluate_every - 1) / train.evaluate_every;
  const std::int64_t validation = batches_of(run, Split::validation);
  const std::int64_t test = batches_of(run, Split::test);
  const bool always_test = validation == 0 || train.protocol == "published";
  return times * validation + (always_test ? times : 1) * test;
}

double time_evaluation(BuiltRun& run) {
  const c10::NoGradGuard no_gradients;
  run.model->eval();
  run.task->eval();
  const Batch batch = first_batch(run, evaluation_request(run, Split::test));
  const Clock::time_point begin = Clock::now();
  Evaluation evaluation{*run.model, run.dataset->info(), Split::test, run.streams, {}};
  evaluation.batches = [&](Split, const std::function<void(const Batch&)>& use) { use(batch); };
  run.task->evaluate(evaluation);
  return seconds_since(begin);
}

}  // namespace

/// Keeps the most that a device's allocator reports as handed out.
class PeakMemory::DeviceReports final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t, compat::MemoryTotal allocated, compat::MemoryTotal,
                         c10::Device device) override {
    if (device.is_cpu()) return;
    const auto held = static_cast<std::int64_t>(allocated);
    for (std::int64_t seen = peak_; seen < held && !peak_.compare_exchange_weak(seen, held);) {
    }
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t peak() const { return peak_; }

 private:
  std::atomic<std::int64_t> peak_{0};
};

struct PeakMemory::Guard {
  explicit Guard(const std::shared_ptr<DeviceReports>& reports)
      : set(c10::DebugInfoKind::PROFILER_STATE, reports) {}
  c10::DebugInfoGuard set;
};

PeakMemory::PeakMemory(const at::Device& device) {
  if (device.is_cpu()) {
    ::malloc_trim(0);  // what an earlier run of this process left is not this one's
    std::ofstream("/proc/self/clear_refs") << "5";  // sets VmHWM back to what is resident now
    return;
  }
  reports_ = std::make_shared<DeviceReports>();
  guard_ = std::make_unique<Guard>(reports_);
}

PeakMemory::~PeakMemory() = default;

std::int64_t PeakMemory::bytes() const {
  return reports_ == nullptr ? resident_peak() : reports_->peak();
}

ForwardOperations forward_operations(const BuiltRun& run) {
  const c10::NoGradGuard no_gradients;
  PlanRequest request = training_request(run, 0);
  request.training = false;
  if (!uneven(run.dataset->info())) {
    request.batch_size = 1;
    request.budget = 0;
  }
  const Batch batch = first_batch(run, request);
  const bool training = run.model->is_training();
  run.model->eval();
  ForwardPass pass;
  const FlopCounter flops;
  run.model->forward(batch, pass);
  run.model->train(training);
  return {batch.size, flops.total(), flops.operations()};
}

std::int64_t forward_flops(const BuiltRun& run) {
  const ForwardOperations pass = forward_operations(run);
  return pass.flops / pass.examples;
}

RunForecast probe_run(BuiltRun& run, std::int64_t steps) {
  const PeakMemory memory(run.device);
  RunForecast result;
  result.data = run.dataset->info().fingerprint;
  result.parameters = run.parameter_count();
  result.steps = run.total_steps();
  if (steps > 0) {
    result.flops = forward_flops(run);
    result.step_seconds = time_steps(run, steps);
    result.evaluation_seconds = time_evaluation(run) * static_cast<double>(evaluated_batches(run));
  }
  result.peak_memory = memory.bytes();
  return result;
}

}  // namespace attnlab
