#include "framework/train/step.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/config/problems.h"
#include "framework/train/step_profile.h"

namespace attnlab {
namespace {

/// What each part of a step counts for; the sum is 1, or 0 where nothing counts.
std::vector<double> shares_of(const Task& task, const std::vector<Batch>& parts) {
  if (parts.size() == 1) return {1.0};
  std::vector<double> shares;
  shares.reserve(parts.size());
  for (const Batch& part : parts) shares.push_back(task.weight(part));
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  if (sum > 0) {
    for (double& share : shares) share /= sum;
  }
  return shares;
}

/// The rows that each part of a step goes on from.
std::vector<NamedTensors> split(const NamedTensors& carried, const std::vector<Batch>& parts) {
  if (parts.size() == 1) return {carried};
  std::vector<NamedTensors> all;
  all.reserve(parts.size());
  std::int64_t begin = 0;
  for (const Batch& part : parts) {
    all.push_back(carried_rows(carried, begin, part.size));
    begin += part.size;
  }
  return all;
}

NamedTensors joined(const std::vector<NamedTensors>& parts) {
  if (parts.size() == 1) return parts.front();
  NamedTensors all;
  for (const auto& [name, first] : parts.front()) {
    std::vector<Tensor> rows;
    rows.reserve(parts.size());
    for (const NamedTensors& part : parts) rows.push_back(part.at(name));
    all.set(name, at::cat(rows));
  }
  return all;
}

void check_carried(const NamedTensors& carried, std::int64_t rows) {
  for (const auto& [name, tensor] : carried) {
    const std::string start = fmt::format("the model carries '{}' {}", name, describe(tensor));
    if (tensor.requires_grad()) {
      throw ShapeError(start + " with a gradient: it must detach what the next batch gets");
    }
    if (tensor.dim() == 0 || tensor.size(0) != rows) {
      throw ShapeError(fmt::format(
          "{} from a batch of {}: the first dimension must be the batch's rows", start, rows));
    }
  }
}

void check_loss(const BuiltRun& run, const Tensor& loss) {
  if (loss.defined() && loss.numel() == 1 && loss.requires_grad()) return;
  throw ShapeError(
      fmt::format("task '{}': step() gave {}{}, expected one number that gradients flow from",
                  run.experiment.task.name, describe(loss),
                  loss.defined() && !loss.requires_grad() ? " without a gradient" : ""));
}

/// Has attention layers add their losses while it lives.
class LossCollection {
 public:
  LossCollection(const std::vector<std::shared_ptr<Attention>>& layers, AttentionLosses& losses)
      : layers_(layers) {
    for (const auto& layer : layers_) layer->add_losses_to(&losses);
  }
  ~LossCollection() {
    for (const auto& layer : layers_) layer->add_losses_to(nullptr);
  }
  LossCollection(const LossCollection&) = delete;
  LossCollection& operator=(const LossCollection&) = delete;

 private:
  const std::vector<std::shared_ptr<Attention>>& layers_;
};

/// The task's loss and what is weighed of that which attention layers added.
/// @param record  as TrainingStep::record
Tensor with_attention_losses(Tensor loss, const AttentionLosses& added,
                             const OptionMap<double>& weights,
                             const std::function<void(std::string_view, const Tensor&)>& record) {
  for (const auto& [name, weight] : weights) {
    const auto found = added.all().find(name);
    if (found == added.all().end()) continue;
    std::vector<Tensor> values;
    values.reserve(found->second.size());
    for (const Tensor& value : found->second) values.push_back(value.to(loss.scalar_type()));
    const Tensor mean = at::stack(values).mean();
    if (record) record("attention/" + name, mean);
    if (weight == 0) continue;
    if (!mean.requires_grad()) {
      throw ShapeError(
          fmt::format("train.attention_losses.{0}: no gradient flows from what attention layers "
                      "added as '{0}': they must not detach it",
                      name));
    }
    loss = loss + mean * weight;
  }
  return loss;
}

}  // namespace

std::vector<Batch> parts_of(const Batch& batch, std::int64_t count) {
  if (count == 1) return {batch};
  const std::int64_t size = (batch.size + count - 1) / count;
  std::vector<Batch> parts;
  parts.reserve(static_cast<std::size_t>(count));
  for (std::int64_t begin = 0; begin < batch.size; begin += size) {
    parts.push_back(slice(batch, begin, std::min(size, batch.size - begin)));
  }
  return parts;
}

NamedTensors carried_rows(const NamedTensors& carried, std::int64_t begin, std::int64_t size) {
  NamedTensors rows;
  for (const auto& [name, tensor] : carried) rows.set(name, tensor.narrow(0, begin, size));
  return rows;
}

StepResult backward(BuiltRun& run, const Batch& batch, const StepContext& around) {
  const std::vector<Batch> parts = parts_of(batch, run.experiment.train.accumulate);
  const std::vector<double> shares = shares_of(*run.task, parts);
  const bool carries = around.carried != nullptr;
  std::vector<NamedTensors> carried;
  if (carries) carried = split(*around.carried, parts);
  const OptionMap<double>& weights = run.experiment.train.attention_losses;
  std::vector<std::shared_ptr<Attention>> layers;
  if (!weights.empty()) layers = attentions_of(*run.model);
  StepResult result;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double share = shares[i];
    TrainingStep step{.model = *run.model,
                      .batch = parts[i],
                      .carried = carries ? &carried[i] : nullptr,
                      .number = around.number,
                      .steps = run.total_steps(),
                      .steps_per_epoch = run.steps_per_epoch,
                      .random = run.streams.stream("step", std::uint64_t(around.number), i),
                      .average_model = run.average_model.get(),
                      .average_task = run.average_task.get(),
                      .record = {}};
    if (around.record && share > 0) {
      step.record = [&](std::string_view part, const Tensor& value) {
        result.parts[std::string(part)] += share * value.item<double>();
      };
    }
    Tensor loss;
    AttentionLosses added;
    {
      RECORD_USER_SCOPE(kForwardScope);
      const LossCollection collection(layers, added);
      loss = run.task->step(step);
    }
    for (const auto& [name, values] : added.all()) result.attention_losses.insert(name);
    if (carries) check_carried(carried[i], parts[i].size);
    if (share == 0) continue;  // the mean of no terms may be anything
    check_loss(run, loss);
    loss = with_attention_losses(loss, added, weights, step.record);
    if (parts.size() > 1) loss = loss * share;
    const double value = loss.item<double>();
    result.loss += value;
    if (!std::isfinite(value)) return result;
    RECORD_USER_SCOPE(kBackwardScope);
    loss.backward();
  }
  if (carries) *around.carried = joined(carried);
  return result;
}

void check_attention_losses(const BuiltRun& run, const StepResult& step) {
  const std::vector<std::string> added(step.attention_losses.begin(), step.attention_losses.end());
  const std::string& attention = run.experiment.attention.name;
  Problems problems;
  for (const auto& [name, weight] : run.experiment.train.attention_losses) {
    if (step.attention_losses.count(name) > 0) continue;
    const std::string key = "train.attention_losses." + name;
    const Node* given = find_key(run.experiment.resolved, key);
    add_problem(
        problems, given == nullptr ? Place{} : given->place(),
        added.empty()
            ? fmt::format("{}: no layer with attention '{}' added a loss in the first step; leave "
                          "it out, or choose an attention that adds it",
                          key, attention)
            : fmt::format("{}: no layer with attention '{}' added it in the first step; added were "
                          "{}: name one of these, or leave it out",
                          key, attention, join(added, ", ")));
  }
  if (!problems.empty()) throw ConfigError(problems);
}

std::vector<std::shared_ptr<Attention>> attentions_of(const Model& model) {
  std::vector<std::shared_ptr<Attention>> layers;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    auto layer = std::dynamic_pointer_cast<Attention>(module);
    if (layer != nullptr && std::find(layers.begin(), layers.end(), layer) == layers.end()) {
      layers.push_back(std::move(layer));
    }
  }
  return layers;
}

AfterStep::AfterStep(const BuiltRun& run)
    : attentions_(attentions_of(*run.model)), model_(run.model), task_(run.task) {}

void AfterStep::operator()(const StepFacts& facts) const {
  const c10::NoGradGuard no_gradients;
  for (const auto& attention : attentions_) attention->after_step(facts);
  model_->after_step(facts);
  task_->after_step(facts);
}

std::vector<OptimizedParameter> trained_parameters(const BuiltRun& run) {
  std::vector<OptimizedParameter> parameters = trained_parameters(*run.model);
  for (OptimizedParameter& own : trained_parameters(*run.task, "task.")) {
    parameters.push_back(std::move(own));
  }
  return parameters;
}

Optimizer make_optimizer(const BuiltRun& run) {
  return make_optimizer(trained_parameters(run), run.experiment.train.optimizer);
}

}  // namespace attnlab
