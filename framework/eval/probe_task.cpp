#include "framework/eval/probe_task.h"

#include <fmt/format.h>

#include <limits>

#include "framework/eval/classification.h"

namespace attnlab {
namespace {

constexpr const char* kWeight = "weight";
constexpr const char* kBias = "bias";
constexpr const char* kNumbers = "numbers";  // chosen, choice_accuracy, gradient

}  // namespace

ProbeTask::ProbeTask(const ProbeOptions& options, const TaskSetup& setup)
    : reader_(options.features), classes_(setup.data.classes) {
  if (classes_ > 0) return;
  throw DataError(fmt::format("dataset '{}' has no classes; a probe needs some to tell apart",
                              setup.data.name));
}

Tensor MeasuringTask::loss(const NamedTensors&, const Batch&) const {
  throw ConfigError(
      "this task measures a finished run and trains nothing: name it in an entry of evaluate:, or "
      "ask a run with attnlab eval RUN --with FILE");
}

FeatureTable choice_table(const Evaluation& evaluation, const FeatureReader& reader,
                          const ChoiceOptions& options, std::size_t count) {
  if (count == 1) return {};
  const bool tested = options.choose_by == "tested";
  if (!tested && evaluation.split == Split::validation) {
    throw DataError(
        "choose_by: the validation split is what this entry reports; report another one (split: "
        "test), give one value alone, or set choose_by: tested, as published code does");
  }
  FeatureTable table =
      features_of(evaluation, tested ? evaluation.split : Split::validation, reader);
  if (table.size() == 0) {
    throw DataError(
        fmt::format("choose_by: dataset '{}' has no validation split to choose by; hold training "
                    "examples out in the entry (set: {{dataset: {{validation: 0.1}}}}), give one "
                    "value alone, or set choose_by: tested, as published code does",
                    evaluation.data.name));
  }
  return table;
}

Choice chosen_probe(const FeatureTable& by, std::size_t count,
                    const std::function<Tensor(std::size_t, const Tensor&)>& logits) {
  Choice best{0, std::numeric_limits<double>::quiet_NaN()};
  if (count == 1) return best;
  for (std::size_t i = 0; i < count; ++i) {
    const Tensor right = right_of(logits(i, by.features), by.classes);
    const double accuracy = right.to(at::kDouble).mean().item<double>();
    if (i == 0 || accuracy > best.accuracy) best = {i, accuracy};
  }
  return best;
}

void save_probe(const LinearProbe& probe, NamedTensors& saved) {
  saved.set(kWeight, probe.weight);
  saved.set(kBias, probe.bias);
  saved.set(kNumbers,
            at::tensor({probe.chosen, probe.choice_accuracy, probe.gradient}, at::kDouble));
}

LinearProbe saved_probe(const NamedTensors& saved, std::int64_t classes) {
  const Tensor &weight = saved.at(kWeight), &bias = saved.at(kBias), &numbers = saved.at(kNumbers);
  if (weight.dim() != 2 || weight.size(0) != classes || bias.dim() != 1 ||
      bias.size(0) != classes || numbers.numel() != 3) {
    throw DataError(fmt::format("the saved probe has {} and {}, and the data have {} classes",
                                describe(weight), describe(bias), classes));
  }
  const auto* number = numbers.data_ptr<double>();
  return {weight, bias, number[0], number[1], number[2]};
}

std::vector<MetricInfo> probe_metrics(bool has_top5) {
  std::vector<MetricInfo> all = {{"accuracy", Better::higher, "share"},
                                 {"nll", Better::lower, "nats"},
                                 {"recall", Better::higher, "share"}};
  if (has_top5) all.push_back({"top5", Better::higher, "share"});
  return all;
}

Metrics measured_probe(const Evaluation& evaluation, const FeatureReader& reader,
                       const LinearProbe& probe,
                       const std::function<Tensor(const Tensor&)>& prepare) {
  ClassificationMeter meter;
  const Tensor right = at::zeros({probe.bias.size(0)}, at::kDouble), all = at::zeros_like(right);
  evaluation.batches(evaluation.split, [&](const Batch& batch) {
    Tensor features = reader.read(evaluation.model, batch).to(at::kCPU, at::kFloat);
    if (prepare) features = prepare(features);
    const Tensor x = features.to(probe.weight.scalar_type());
    const Tensor logits = at::addmm(probe.bias, x, probe.weight.t());
    meter.add({{"logits", logits}}, batch);
    const Tensor classes = batch.fields.at("class").to(at::kCPU);
    right.index_add_(0, classes, right_of(logits, classes).to(at::kDouble));
    all.index_add_(0, classes, at::ones({classes.size(0)}, at::kDouble));
  });
  Metrics metrics = meter.result();
  metrics["recall"] = (right / all).masked_select(all > 0).mean().item<double>();
  return metrics;
}

}  // namespace attnlab
