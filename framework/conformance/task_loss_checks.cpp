// Checks of what a task trains by: its loss, its own parameters, parts of a batch, members.
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <cmath>
#include <set>

#include "framework/base/text.h"
#include "framework/conformance/task_checks.h"

namespace attnlab::conformance {
namespace {

constexpr std::int64_t kSteps = 200, kBatch = 16, kLossMembers = 2;

std::string text(double value) { return shortest(value); }

/// A loss that may be trained by. @throws Failure.
double checked(const std::string& what, const Tensor& loss) {
  expect(loss.defined() && loss.numel() == 1 && loss.dim() == 0 && loss.is_floating_point(),
         fmt::format("{} is {}, expected a scalar of floating point", what, describe(loss)));
  expect(loss.requires_grad(), what + " has no gradient");
  expect_finite(what, loss);
  return loss.item<double>();
}

/// Adam over the parameters of model and task.
class Descent {
 public:
  explicit Descent(const Pair& pair) {
    for (const torch::nn::Module* part : {static_cast<const torch::nn::Module*>(pair.model.get()),
                                          static_cast<const torch::nn::Module*>(pair.task.get())}) {
      for (const Tensor& parameter : part->parameters()) {
        slots_.push_back({parameter, at::zeros_like(parameter), at::zeros_like(parameter)});
      }
    }
  }

  void step(const Tensor& loss) {
    for (Slot& slot : slots_) slot.parameter.mutable_grad() = Tensor();
    loss.backward();
    const at::NoGradGuard no_gradients;
    ++count_;
    for (Slot& slot : slots_) {
      const Tensor& gradient = slot.parameter.grad();
      if (!gradient.defined()) continue;
      slot.mean.mul_(0.9).add_(gradient, 0.1);
      slot.square.mul_(0.99).addcmul_(gradient, gradient, 0.01);
      const double mean_share = 1 - std::pow(0.9, count_), share = 1 - std::pow(0.99, count_);
      slot.parameter.sub_(0.03 * (slot.mean / mean_share) / ((slot.square / share).sqrt() + 1e-8));
    }
  }

 private:
  struct Slot {
    Tensor parameter, mean, square;
  };
  std::vector<Slot> slots_;
  double count_ = 0;
};

/// Whether a value of the metric is at least as good as another.
bool no_worse(const MetricInfo& metric, double value, double before) {
  return metric.better == Better::higher ? value >= before : value <= before;
}

/// Names of parameters that the loss reaches with something that is not 0.
std::set<std::string> reached(const torch::nn::Module& module) {
  std::set<std::string> names;
  for (const auto& item : module.named_parameters()) {
    const Tensor& gradient = item.value().grad();
    if (!gradient.defined()) continue;
    expect_finite(fmt::format("the gradient of '{}'", item.key()), gradient);
    if (gradient.ne(0).any().item<bool>()) names.insert(item.key());
  }
  return names;
}

}  // namespace

std::string check_loss(const TaskFixture& fixture) {
  for (const std::int64_t size : {1, 5}) {
    const Pair pair = fixture.pair(true);
    const Batch batch = fixture.batch(0, size);
    const Tensor loss = TaskFixture::step(pair, batch);
    const std::string what = fmt::format("the loss of {} examples", size);
    const double value = checked(what, loss);
    const double again = checked(what, TaskFixture::step(fixture.pair(true), batch));
    expect(value == again, fmt::format("{} is {}, and {} of the same model, task and batch once "
                                       "more: draw from TrainingStep::random",
                                       what, text(value), text(again)));
    loss.backward();
    expect(!reached(*pair.model).empty(),
           what + " does not depend on the model: all its gradients are 0 or undefined");
  }
  return "";
}

std::string check_learning(const TaskFixture& fixture) {
  const Pair pair = fixture.pair(true);
  const Batch batch = fixture.batch(0, kBatch);
  const MetricInfo headline = fixture.pair(false).task->metrics().at(0);
  const auto measured = [&] {
    for (Trainable* part :
         {static_cast<Trainable*>(pair.model.get()), static_cast<Trainable*>(pair.task.get())}) {
      part->eval();
    }
    const double value = fixture.evaluate(pair, {batch}).at(headline.name);
    pair.model->train();
    pair.task->train();
    return value;
  };
  const double metric_before = measured();
  Descent descent(pair);
  double first = 0, last = 0;
  for (std::int64_t i = 0; i < kSteps; ++i) {
    const Tensor loss = TaskFixture::step(pair, batch, i);
    last = checked(fmt::format("the loss of step {}", i), loss);
    if (i == 0) first = last;
    descent.step(loss);
  }
  const double metric_after = measured();
  const std::string steps =
      fmt::format("{} steps on {} examples that can be told apart", kSteps, kBatch);
  expect(last < first, fmt::format("after {} the loss is {}, before them {}: it does not fall",
                                   steps, text(last), text(first)));
  expect(headline.better == Better::neither || no_worse(headline, metric_after, metric_before),
         fmt::format(
             "after {} the metric '{}' went from {} to {}, and the task says that {} is better",
             steps, headline.name, text(metric_before), text(metric_after),
             headline.better == Better::higher ? "higher" : "lower"));
  return fmt::format("loss {} to {}, {} {} to {}", text(std::round(first * 1000) / 1000),
                     text(std::round(last * 1000) / 1000), headline.name, text(metric_before),
                     text(metric_after));
}

std::string check_weights(const TaskFixture& fixture) {
  const Pair pair = fixture.pair(true);
  const Batch whole = fixture.batch(0, 6);
  const std::vector<Batch> parts = {slice(whole, 0, 1), slice(whole, 1, 2), slice(whole, 3, 3)};
  double sum = 0, weights = 0;
  for (const Batch& part : parts) {
    const double weight = pair.task->weight(part);
    expect(weight > 0 && std::isfinite(weight),
           fmt::format("weight() of {} examples is {}, expected a number above 0", part.size,
                       text(weight)));
    sum += weight * checked("the loss of a part", TaskFixture::step(pair, part));
    weights += weight;
  }
  const double all = checked("the loss of the whole", TaskFixture::step(pair, whole));
  const double joined = sum / weights;
  expect(std::abs(joined - all) <= kRegrouped * std::max(1.0, std::abs(all)),
         fmt::format(
             "the losses of parts of 1, 2 and 3 examples, by weight(), are {} in the mean; the "
             "loss of all 6 is {}: weight() must count the terms that the loss is the mean of",
             text(joined), text(all)));
  const double weight = pair.task->weight(whole);
  expect(std::abs(weight - weights) <= kExact * weight,
         fmt::format("weight() of 6 examples is {}, of its parts {}", text(weight), text(weights)));
  return "";
}

std::string check_members(const TaskFixture& fixture) {
  if (!fixture.subject().ensemble) throw NotApplicable("its plugin does not say .ensemble");
  NamedTensors outputs;
  std::vector<Batch> batches;
  std::vector<double> expected;
  for (std::int64_t m = 0; m < kLossMembers; ++m) {
    const Pair pair = fixture.pair(true, static_cast<std::uint64_t>(m) + 1);
    nudge(*pair.model, static_cast<std::uint64_t>(m));
    batches.push_back(fixture.batch(4 * m, 4));
    expected.push_back(checked("step()", TaskFixture::step(pair, batches.back())));
    for (const auto& [name, tensor] : outputs_of(*pair.model, batches.back())) {
      const Tensor* before = outputs.find(name);
      outputs.set(name, before == nullptr ? tensor : at::cat({*before, tensor}));
    }
  }
  const Tensor losses = fixture.pair(true).task->losses(outputs, joined(batches), kLossMembers);
  expect_close(fmt::format("losses() of {} members, against step() of each", kLossMembers), losses,
               at::tensor(expected, at::kDouble), kRegrouped);
  return "";
}

std::string check_parameters(const TaskFixture& fixture) {
  const Pair pair = fixture.pair(true);
  if (pair.task->parameters().empty()) throw NotApplicable("it has no parameters");
  TaskFixture::step(pair, fixture.batch(0, kBatch)).backward();
  std::vector<std::string> lacking;
  const std::set<std::string> found = reached(*pair.task);
  for (const auto& item : pair.task->named_parameters()) {
    if (found.count(item.key()) == 0) lacking.push_back(item.key());
  }
  expect(
      lacking.empty(),
      fmt::format(
          "the loss does not depend on {}: use these parameters in step(), or do not register them",
          join(lacking, ", ")));
  return fmt::format("{} parameters", found.size());
}

std::string check_save_and_load(const TaskFixture& fixture) {
  const Pair used = fixture.pair(true, 1), other = fixture.pair(true, 2);
  if (kept_tensors(*used.task).empty()) {
    throw NotApplicable("it has no parameters and no buffers");
  }
  Descent descent(used);
  for (const std::int64_t i : {0, 1, 2}) {
    descent.step(TaskFixture::step(used, fixture.batch(0, 8), i));
  }
  save_and_load(*used.task, *other.task);
  save_and_load(*used.model, *other.model);
  const Batch batch = fixture.batch(8, 4);
  const double found = checked("the loss", TaskFixture::step(other, batch));
  const double expected = checked("the loss", TaskFixture::step(used, batch));
  expect(
      std::abs(found - expected) <= kExact * std::max(1.0, std::abs(expected)),
      fmt::format(
          "with the parameters and buffers of a used task, a fresh one's loss is {}, expected {}",
          text(found), text(expected)));
  return "";
}

}  // namespace attnlab::conformance
