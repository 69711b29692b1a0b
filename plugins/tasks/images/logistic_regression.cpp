// Logistic regression on a finished model's features, to convergence, the penalty chosen.
//
//   minimise  sum_i -log softmax(W x_i + b)[y_i] + l2 / 2 |W|^2     against: sum
//             mean_i -log softmax(W x_i + b)[y_i] + l2 / 2 |W|^2    against: mean
//   accuracy, nll, recall, top5   of the fit on the split that is evaluated
//   l2         the penalty that was chosen; choice_accuracy: what it was chosen by
//   gradient   the largest number of the mean loss's gradient that is left
//
// The largest penalty is fitted first, and each fit begins where the last one ended. With the one
// that the validation split has chosen the map is fitted again on both splits. It is saved with the
// result and taken when it is asked for again. By default 45 values of l2, spaced evenly by
// logarithm from 1e-6 to 1e5: Kornblith et al., Do better ImageNet models transfer better?, CVPR
// 2019, appendix; Ericsson et al., How well do self-supervised models transfer?, CVPR 2021. Few
// images per class, of Assran et al., Masked Siamese networks, ECCV 2022, by their code: l2 0.0025,
// centre: true, unit: true, bias: false; in iBOT's code l2 0.01, 0.1 and 1, against: mean, unit:
// true, bias: false. Cost: a forward pass over the training split, and O(N C K) an iteration of
// each value.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/eval/logistic_regression.h"
#include "framework/eval/probe_task.h"
#include "framework/nn/kernels/unit.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct LogisticRegressionOptions : ProbeOptions, ChoiceOptions {
  std::vector<double> l2;
  std::string against = "sum";
  bool centre = false, unit = false, bias = true;
  std::int64_t iterations = 1000;
  double tolerance = 1e-6;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    ProbeOptions::describe(v);
    ChoiceOptions::describe(v);
    v("l2", l2, range(1e-12, 1e12), "penalties that are tried; empty: 45 from 1e-6 to 1e5");
    v("against", against, one_of("sum", "mean"),
      "what the penalty is added to: the losses' sum or mean");
    v("centre", centre, "subtract the mean of each image's features, before `unit`");
    v("unit", unit, "scale features to length 1");
    v("bias", bias, "one bias per class, without penalty");
    v("iterations", iterations, range(1, 1e9), "most iterations of L-BFGS for one penalty");
    v("tolerance", tolerance, range(0, 1), "a fit ends when no entry of the gradient is larger");
  }
};

std::vector<double> published_penalties() {
  std::vector<double> all;
  for (int i = 0; i < 45; ++i) all.push_back(std::pow(10.0, -6 + 11.0 * i / 44));
  return all;
}

class LogisticRegressionTask final : public ProbeTask {
 public:
  LogisticRegressionTask(const LogisticRegressionOptions& options, const TaskSetup& setup)
      : ProbeTask(options, setup), options_(options) {
    if (options_.l2.empty()) options_.l2 = published_penalties();
    // So that of equally good ones the largest is chosen.
    std::sort(options_.l2.rbegin(), options_.l2.rend());
  }

  std::vector<MetricInfo> metrics() const override {
    std::vector<MetricInfo> all = probe_metrics(has_top5());
    all.push_back({"l2", Better::neither, ""});
    if (options_.l2.size() > 1) all.push_back({"choice_accuracy", Better::higher, "share"});
    all.push_back({"gradient", Better::lower, ""});
    return all;
  }

  Metrics evaluate(Evaluation& evaluation) const override {
    Fitted own;
    NamedTensors& saved = (evaluation.fitted == nullptr ? own : *evaluation.fitted).saved;
    if (saved.size() == 0) save_probe(fit(evaluation), saved);
    const LinearProbe probe = saved_probe(saved, classes());
    Metrics metrics =
        measured_probe(evaluation, reader(), probe, [&](const Tensor& x) { return prepared(x); });
    metrics["l2"] = probe.chosen;
    if (options_.l2.size() > 1) metrics["choice_accuracy"] = probe.choice_accuracy;
    metrics["gradient"] = probe.gradient;
    return metrics;
  }

 private:
  Tensor prepared(const Tensor& features) const {
    const Tensor x = options_.centre ? features - features.mean(1, /*keepdim=*/true) : features;
    return options_.unit ? attnlab::unit(x, 1e-12) : x;
  }

  LogisticFit fit_to(const FeatureTable& table, double l2, const LogisticFit* start) const {
    LogisticOptions options;
    options.penalty = options_.against == "sum" ? l2 / static_cast<double>(table.size()) : l2;
    options.bias = options_.bias;
    options.iterations = options_.iterations;
    options.tolerance = options_.tolerance;
    return fit_logistic(prepared(table.features), table.classes, classes(), options, start);
  }

  LinearProbe fit(const Evaluation& evaluation) const {
    const FeatureTable by = choice_table(evaluation, reader(), options_, options_.l2.size());
    const FeatureTable table = training_features(evaluation, reader());
    std::vector<LogisticFit> fits;
    for (const double l2 : options_.l2) {
      fits.push_back(fit_to(table, l2, fits.empty() ? nullptr : &fits.back()));
    }
    const Choice choice = chosen_probe(by, fits.size(), [&](std::size_t i, const Tensor& x) {
      return fits[i].logits(prepared(x));
    });
    const double l2 = options_.l2[choice.index];
    LogisticFit best = fits[choice.index];
    if (fits.size() > 1 && options_.choose_by == "validation") {
      best = fit_to({at::cat({table.features, by.features}), at::cat({table.classes, by.classes})},
                    l2, &fits[choice.index]);
    }
    return {best.weight, best.bias, l2, choice.accuracy, best.gradient};
  }

  LogisticRegressionOptions options_;
};

}  // namespace

ATTNLAB_PLUGIN(task, LogisticRegressionTask, LogisticRegressionOptions,
               {.id = "attnlab/logistic_regression",
                .version = "1.0.0",
                .summary = "logistic regression on a finished model's features, L2 penalty chosen",
                .citation = "Kornblith et al., CVPR 2019; Zhou et al., iBOT, ICLR 2022",
                .licence = "Apache-2.0",
                .takes = {"layer_features", "class"}})

}  // namespace attnlab
