// Linear probe: a linear map to classes, trained by SGD on a finished model's features.
//
//   accuracy, nll, recall, top5   of the map on the split that is evaluated
//   rate   the learning rate that was chosen; choice_accuracy: what it was chosen by
//
// One map for each rate is trained side by side: momentum 0.9, no weight decay, batches in random
// order, rate * examples / 256 falling by half a cosine from epoch to epoch. Without `augment`
// features are read once and stay in memory; with it each epoch reads the training split as the
// dataset's options augment it (published: a resized crop and a flip), in batches of
// train.batch_size. The map is saved with the result and taken when it is asked for again.
// Source: the linear evaluation of Caron et al., DINO, ICCV 2021, and Zhou et al., iBOT, ICLR 2022,
// whose code takes the best epoch of the tested split, where this takes the last.
// Cost: a forward pass over the training split (`augment`: one more an epoch), and epochs * N * C *
// K products a rate.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "framework/eval/linear_heads.h"
#include "framework/eval/probe_task.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct LinearProbeOptions : ProbeOptions, ChoiceOptions {
  std::vector<double> rates = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3};
  std::int64_t epochs = 100, batch_size = 256;
  bool augment = false;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    ProbeOptions::describe(v);
    ChoiceOptions::describe(v);
    v("rates", rates, range(1e-12, 1e6), "learning rates that are tried, for batches of 256");
    v("epochs", epochs, range(1, 1e6), "passes over the training split");
    v("batch_size", batch_size, range(1, 1e9), "examples per step, without augment");
    v("augment", augment, "read augmented images each epoch (see dataset.augmentation)");
  }
};

/// Where the model computes.
at::Device device_of(const Model& model) {
  const std::vector<Tensor> parameters = model.parameters();
  return parameters.empty() ? at::Device(at::kCPU) : parameters.front().device();
}

class LinearProbeTask final : public ProbeTask {
 public:
  LinearProbeTask(const LinearProbeOptions& options, const TaskSetup& setup)
      : ProbeTask(options, setup), options_(options) {
    if (options.rates.empty()) throw OptionError("rates", "is empty; give some, as [0.01, 0.1]");
  }

  std::vector<MetricInfo> metrics() const override {
    std::vector<MetricInfo> all = probe_metrics(has_top5());
    all.push_back({"rate", Better::neither, ""});
    if (options_.rates.size() > 1) all.push_back({"choice_accuracy", Better::higher, "share"});
    return all;
  }

  Metrics evaluate(Evaluation& evaluation) const override {
    Fitted own;
    NamedTensors& saved = (evaluation.fitted == nullptr ? own : *evaluation.fitted).saved;
    if (saved.size() == 0) save_probe(fit(evaluation), saved);
    const LinearProbe probe = saved_probe(saved, classes());
    Metrics metrics = measured_probe(evaluation, reader(), probe);
    metrics["rate"] = probe.chosen;
    if (options_.rates.size() > 1) metrics["choice_accuracy"] = probe.choice_accuracy;
    return metrics;
  }

 private:
  LinearProbe fit(const Evaluation& evaluation) const {
    if (options_.augment && !evaluation.training) {
      throw OptionError("augment", "this dataset has no augmented images; leave the option out");
    }
    const FeatureTable by = choice_table(evaluation, reader(), options_, options_.rates.size());
    const FeatureTable table = training_features(evaluation, reader());  // augment: what it refuses
    const at::Device device = device_of(evaluation.model);
    LinearHeads heads(table.features.size(1), classes(), options_.rates,
                      evaluation.streams.stream("probe"), device);
    const auto step = [&](const Tensor& features, const Tensor& of_class, std::int64_t epoch) {
      heads.step(features.to(device), of_class.to(device), factor(epoch, features.size(0)));
    };
    if (options_.augment) {
      fit_augmented(evaluation, step);
    } else {
      fit_kept(evaluation, table, step);
    }
    const Tensor weight = heads.weight().to(at::kCPU), bias = heads.bias().to(at::kCPU);
    const auto logits = [&](std::size_t i, const Tensor& features) {
      const auto rate = static_cast<std::int64_t>(i);
      return at::addmm(bias[rate], features, weight[rate].t());
    };
    const Choice choice = chosen_probe(by, options_.rates.size(), logits);
    const auto best = static_cast<std::int64_t>(choice.index);
    return {weight[best].clone(), bias[best].clone(), options_.rates[choice.index], choice.accuracy,
            0};
  }

  /// Of all rates in a step.
  double factor(std::int64_t epoch, std::int64_t examples) const {
    const double done = static_cast<double>(epoch) / static_cast<double>(options_.epochs);
    return (1 + std::cos(std::numbers::pi * done)) / 2 * static_cast<double>(examples) / 256;
  }

  template <class Step>
  void fit_kept(const Evaluation& evaluation, const FeatureTable& table, const Step& step) const {
    for (std::int64_t epoch = 0; epoch < options_.epochs; ++epoch) {
      const Random random = evaluation.streams.stream("order", static_cast<std::uint64_t>(epoch));
      const Tensor order = at::tensor(permutation(table.size(), random), at::kLong);
      for (std::int64_t first = 0; first < table.size(); first += options_.batch_size) {
        const std::int64_t size = std::min(options_.batch_size, table.size() - first);
        const Tensor rows = order.narrow(0, first, size);
        step(table.features.index_select(0, rows), table.classes.index_select(0, rows), epoch);
      }
    }
  }

  template <class Step>
  void fit_augmented(const Evaluation& evaluation, const Step& step) const {
    for (std::int64_t epoch = 0; epoch < options_.epochs; ++epoch) {
      evaluation.training(static_cast<std::uint64_t>(epoch), [&](const Batch& batch) {
        step(reader().read(evaluation.model, batch).to(at::kFloat), batch.fields.at("class"),
             epoch);
      });
    }
  }

  LinearProbeOptions options_;
};

}  // namespace

ATTNLAB_PLUGIN(task, LinearProbeTask, LinearProbeOptions,
               {.id = "attnlab/linear_probe",
                .version = "1.0.0",
                .summary = "a linear map to classes, trained by SGD on a finished model's features",
                .citation = "Caron et al., DINO, ICCV 2021; Zhou et al., iBOT, ICLR 2022",
                .licence = "Apache-2.0",
                .takes = {"layer_features", "class"}})

}  // namespace attnlab
