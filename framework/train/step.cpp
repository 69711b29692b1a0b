#include "framework/train/step.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/config/problems.h"
#include "framework/contracts/recompute.h"
#include "framework/train/parts.h"
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

/// A part of a step, as its task sees it.
struct PartOfStep {
  const Batch& batch;
  std::uint64_t number = 0;
  NamedTensors* carried = nullptr;
  std::function<void(std::string_view, const Tensor&)> record;  ///< as TrainingStep::record
};

/// The forward passes of parts.
class PartLosses {
 public:
  PartLosses(BuiltRun& run, const StepContext& around) : run_(run), around_(around) {
    if (!weights().empty()) layers_ = attentions_of(*run.model);
  }

  /// @param counts  whether the part counts at all; else its loss may be anything
  /// @param names   of what attention layers add; added to
  Tensor of(const PartOfStep& part, bool counts, std::set<std::string>& names) const {
    TrainingStep step{
        .model = *run_.model,
        .batch = part.batch,
        .carried = part.carried,
        .number = around_.number,
        .steps = run_.total_steps(),
        .steps_per_epoch = run_.steps_per_epoch,
        .random = run_.streams.stream("step", std::uint64_t(around_.number), part.number),
        .average_model = run_.average_model.get(),
        .average_task = run_.average_task.get(),
        .record = counts ? part.record : nullptr};
    AttentionLosses added;
    Tensor loss;
    {
      RECORD_USER_SCOPE(kForwardScope);
      const LossCollection collection(layers_, added);
      const RecomputeLayers again(recomputes());
      loss = run_.task->step(step);
      if (counts && recomputes() && again.count() == 0) refuse_recompute();
    }
    for (const auto& [name, values] : added.all()) names.insert(name);
    if (part.carried != nullptr) check_carried(*part.carried, part.batch.size);
    if (!counts) return {};
    check_loss(run_, loss);
    return with_attention_losses(loss, added, weights(), step.record);
  }

 private:
  const OptionMap<double>& weights() const { return run_.experiment.train.attention_losses; }
  bool recomputes() const { return run_.experiment.train.recompute == "layers"; }

  [[noreturn]] void refuse_recompute() const {
    const Node* const key = find_key(run_.experiment.resolved, "train.recompute");
    throw ConfigError(key == nullptr ? Place() : key->place(),
                      fmt::format("train.recompute: with these options no layer of model '{}' can "
                                  "be computed again; leave it out",
                                  run_.experiment.model.name));
  }

  BuiltRun& run_;
  const StepContext& around_;
  std::vector<std::shared_ptr<Attention>> layers_;
};

// What the processes tell each other of a step's parts.

struct PartReport {
  std::int64_t number = 0, units = 0;
  double weight = 0;  ///< Task::weight
  double loss = 0;    ///< times the weight
  Metrics recorded;   ///< times the weight
};

struct StepReport {
  std::vector<PartReport> parts;
  std::set<std::string> attention_losses;
  std::vector<bool> given;            ///< which parameters have a gradient
  std::vector<std::int64_t> buffers;  ///< which were changed
  bool save = false;
};

std::string told(const StepReport& report) {
  nlohmann::json parts = nlohmann::json::array();
  for (const PartReport& part : report.parts) {
    parts.push_back({part.number, part.units, part.weight, part.loss, part.recorded});
  }
  const std::vector<std::uint8_t> bytes = nlohmann::json::to_msgpack(
      {parts, report.attention_losses, report.given, report.buffers, report.save});
  return {bytes.begin(), bytes.end()};
}

StepReport report_of(const std::string& text) {
  const nlohmann::json in = nlohmann::json::from_msgpack(text.begin(), text.end());
  StepReport report;
  for (const nlohmann::json& part : in.at(0)) {
    report.parts.push_back({part.at(0).get<std::int64_t>(), part.at(1).get<std::int64_t>(),
                            part.at(2).get<double>(), part.at(3).get<double>(),
                            part.at(4).get<Metrics>()});
  }
  report.attention_losses = in.at(1).get<std::set<std::string>>();
  report.given = in.at(2).get<std::vector<bool>>();
  report.buffers = in.at(3).get<std::vector<std::int64_t>>();
  report.save = in.at(4).get<bool>();
  return report;
}

/// All processes' reports as one; parts in order. `save` is process 0's.
StepReport joined(const std::vector<std::string>& texts) {
  StepReport all = report_of(texts.front());
  std::set<std::int64_t> buffers(all.buffers.begin(), all.buffers.end());
  for (std::size_t i = 1; i < texts.size(); ++i) {
    StepReport other = report_of(texts[i]);
    std::move(other.parts.begin(), other.parts.end(), std::back_inserter(all.parts));
    all.attention_losses.merge(other.attention_losses);
    buffers.insert(other.buffers.begin(), other.buffers.end());
    for (std::size_t k = 0; k < all.given.size(); ++k) {
      all.given[k] = all.given[k] || other.given.at(k);
    }
  }
  all.buffers.assign(buffers.begin(), buffers.end());
  return all;
}

/// Sums of what all parts count for, in their order.
struct PartSums {
  double weight = 0, loss = 0;
  bool finite = true;
};

PartSums add_to(StepResult& result, const StepReport& all) {
  PartSums sums;
  for (const PartReport& part : all.parts) {
    sums.weight += part.weight;
    result.units += part.units;
    for (const auto& [name, value] : part.recorded) result.parts[name] += value;
    if (!sums.finite) continue;
    sums.finite = std::isfinite(part.loss);
    sums.loss = sums.finite ? sums.loss + part.loss : part.loss;
  }
  if (sums.weight > 0) {
    for (auto& [name, value] : result.parts) value /= sums.weight;
    result.loss = sums.loss / sums.weight;
  }
  result.attention_losses = all.attention_losses;
  result.save = all.save;
  return sums;
}

std::vector<Tensor> parameters_of(const BuiltRun& run) {
  std::vector<Tensor> all = run.model->parameters();
  for (const Tensor& own : run.task->parameters()) all.push_back(own);
  return all;
}

/// Gradients, which are not the parameters' any more; undefined where there is none.
std::vector<Tensor> taken_gradients(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const Tensor& parameter : parameters) {
    gradients.push_back(parameter.grad());
    parameter.mutable_grad() = Tensor();
  }
  return gradients;
}

/// Sums over this process's parts become those over all, in place. What no part has a gradient of
/// gets none.
/// @param sums     of gradients, by parameter; empty where this process had no part
/// @param buffers  sums likewise
void sum_over_processes(World& world, const std::vector<Tensor>& parameters,
                        const std::vector<bool>& given, std::vector<Tensor>& sums,
                        std::vector<Tensor>& buffers) {
  sums.resize(parameters.size());
  if (world.size() == 1) return;
  std::vector<Tensor> all;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!given[i]) continue;
    // -0 is what changes no bit of the other summand: 0 + -0 is 0.
    if (!sums[i].defined()) sums[i] = at::full_like(parameters[i].detach(), -0.0);
    all.push_back(sums[i]);
  }
  all.insert(all.end(), buffers.begin(), buffers.end());
  tree_sum(world, all);
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

NamedTensors joined_rows(const std::vector<NamedTensors>& parts) {
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

StepResult backward(BuiltRun& run, const Batch& batch, const StepContext& around) {
  const std::vector<Batch> parts = parts_of(batch, run.experiment.train.accumulate);
  const std::vector<double> shares = shares_of(*run.task, parts);
  const bool carries = around.carried != nullptr;
  std::vector<NamedTensors> carried;
  if (carries) carried = split(*around.carried, parts);
  const PartLosses losses(run, around);
  StepResult result;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double share = shares[i];
    PartOfStep part{parts[i], i, carries ? &carried[i] : nullptr, {}};
    if (around.record) {
      part.record = [&](std::string_view name, const Tensor& value) {
        result.parts[std::string(name)] += share * value.item<double>();
      };
    }
    Tensor loss = losses.of(part, share > 0, result.attention_losses);
    if (share == 0) continue;  // the mean of no terms may be anything
    if (parts.size() > 1) loss = loss * share;
    const double value = loss.item<double>();
    result.loss += value;
    if (!std::isfinite(value)) return result;
    RECORD_USER_SCOPE(kBackwardScope);
    (around.scale == 1 ? loss : loss * around.scale).backward();
  }
  if (carries) *around.carried = joined_rows(carried);
  return result;
}

StepResult backward_in_parts(BuiltRun& run, const StepBatch& batch, const StepContext& around) {
  const bool carries = around.carried != nullptr && !batch.parts.empty();
  std::vector<NamedTensors> carried;
  if (carries) carried = split(*around.carried, batch.parts);
  const std::vector<Tensor> parameters = parameters_of(run);
  const PartLosses losses(run, around);
  PartBuffers buffers({run.model.get(), run.task.get()});
  TreeSum gradients;
  StepReport mine;
  mine.save = around.save;
  mine.given = std::vector<bool>(parameters.size());
  const auto step = static_cast<std::uint64_t>(around.number);
  for (std::size_t i = 0; i < batch.parts.size(); ++i) {
    const Batch& rows = batch.parts[i];
    const std::int64_t number = batch.numbers[i];
    PartReport report{number, units_of(run.dataset->info(), rows), run.task->weight(rows), 0, {}};
    PartOfStep part{rows, std::uint64_t(number), carries ? &carried[i] : nullptr, {}};
    if (around.record) {
      part.record = [&](std::string_view name, const Tensor& value) {
        report.recorded[std::string(name)] += report.weight * value.item<double>();
      };
    }
    at::manual_seed(run.streams.key("dropout", step, part.number));
    const double weight = report.weight;
    Tensor loss = losses.of(part, weight > 0, mine.attention_losses);
    // The scale is for gradients of means, however many terms a part has.
    const Tensor scaled = loss.defined() && around.scale != 1 ? loss * around.scale : Tensor();
    if (loss.defined()) {
      loss = loss * weight;
      report.loss = loss.item<double>();
    }
    const bool finite = std::isfinite(report.loss);
    mine.parts.push_back(std::move(report));
    if (loss.defined() && finite) {
      RECORD_USER_SCOPE(kBackwardScope);
      (scaled.defined() ? scaled : loss).backward();
      std::vector<Tensor> own = taken_gradients(parameters);
      for (std::size_t k = 0; k < own.size(); ++k) {
        if (!own[k].defined()) continue;
        mine.given[k] = true;
        if (scaled.defined()) own[k].mul_(weight);
      }
      gradients.add(number, std::move(own));
    }
    buffers.end_part(number);
    if (!finite) break;
  }
  mine.buffers = buffers.changed();

  StepResult result;
  const StepReport all = joined(run.world->gather(told(mine)));
  const PartSums sums = add_to(result, all);
  if (!sums.finite) return result;
  std::vector<Tensor> summed = gradients.result(), statistics = buffers.sums(all.buffers);
  sum_over_processes(*run.world, parameters, all.given, summed, statistics);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (summed[i].defined()) parameters[i].mutable_grad() = summed[i].mul_(1 / sums.weight);
  }
  buffers.set_means(all.buffers, statistics, static_cast<std::int64_t>(all.parts.size()));
  if (carries) *around.carried = joined_rows(carried);
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
  const TrainOptions& train = run.experiment.train;
  return make_optimizer(trained_parameters(run), train.optimizer,
                        train.zero > 0 ? run.world : nullptr);
}

}  // namespace attnlab
