// Several yes-or-no questions per graph, some of them unanswered in the data (NaN).
//
//   loss     = mean over known labels of the binary cross entropy
//   ap       = mean over targets of the average precision
//   roc_auc  = mean over targets of the area under the ROC curve
//   nll      = the loss over the whole split
//
// As OGB's evaluator: missing labels are left out, and so are targets whose known labels in a split
// are all alike; a split without any other target is an error. Source: Hu et al., Open Graph
// Benchmark, NeurIPS 2020, and its public evaluator.
#include <fmt/format.h>

#include <cmath>

#include "framework/eval/label_table.h"
#include "framework/eval/ranking.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct GraphMultilabelOptions {
  std::string headline = "ap";

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("headline", headline, one_of("ap", "roc_auc"), "the metric that runs are judged by");
  }
};

void check_binary(double label) {
  if (label == 0 || label == 1) return;
  throw DataError(fmt::format("labels: graph_multilabel takes 0, 1 and NaN, found {}", label));
}

class MultilabelMeter final : public Meter {
 public:
  void add(const NamedTensors& outputs, const Batch& batch) override {
    columns_.add(outputs, batch);
  }

  Metrics result() const override {
    double ap = 0, auc = 0, nll = 0, targets = 0, labels = 0;
    for (const auto& target : columns_.targets()) {
      std::vector<Scored> scored;
      for (const auto& [logit, label] : target) {
        check_binary(label);
        scored.push_back({logit, label == 1});
        // log(1 + e^-z), for the label 0 of -z, without overflow
        const double z = label == 1 ? logit : -logit;
        nll += std::max(-z, 0.0) + std::log1p(std::exp(-std::abs(z)));
        labels += 1;
      }
      const std::optional<double> precision = average_precision(scored);
      if (!precision) continue;
      ap += *precision;
      auc += *roc_auc(scored);
      targets += 1;
    }
    if (targets == 0) {
      throw UndefinedMetrics(
          "graph_multilabel: no target has both answers in this split, so there is "
          "nothing to rank; take a larger split",
          labels == 0 ? Metrics() : Metrics{{"nll", nll / labels}});
    }
    return {{"ap", ap / targets}, {"roc_auc", auc / targets}, {"nll", nll / labels}};
  }

 private:
  LabelColumns columns_;
};

class GraphMultilabel final : public Task {
 public:
  GraphMultilabel(const GraphMultilabelOptions& options, const TaskSetup& setup)
      : by_auc_(options.headline == "roc_auc") {
    labels_of(setup.data);
  }

  Tensor loss(const NamedTensors& outputs, const Batch& batch) const override {
    const auto [logits, labels] = known_labels(outputs, batch);
    if (logits.numel() == 0) return outputs.at("logits").sum() * 0;
    if (labels.device().is_cpu()) {
      const Tensor odd = labels.masked_select(labels.ne(0).logical_and(labels.ne(1)));
      if (odd.numel() > 0) check_binary(odd[0].item<double>());
    }
    return at::binary_cross_entropy_with_logits(logits, labels);
  }

  double weight(const Batch& batch) const override { return count_known_labels(batch); }

  std::unique_ptr<Meter> meter() const override { return std::make_unique<MultilabelMeter>(); }

  std::vector<MetricInfo> metrics() const override {
    const MetricInfo ap = {"ap", Better::higher, "share"},
                     auc = {"roc_auc", Better::higher, "share"};
    return {by_auc_ ? auc : ap, by_auc_ ? ap : auc, {"nll", Better::lower, "nats"}};
  }

 private:
  bool by_auc_;
};

}  // namespace

ATTNLAB_PLUGIN(task, GraphMultilabel, GraphMultilabelOptions,
               {.id = "attnlab/graph_multilabel",
                .version = "1.0.0",
                .summary = "several binary labels per graph: mean average precision, ROC-AUC",
                .citation = "Hu et al., Open Graph Benchmark, NeurIPS 2020, arXiv:2005.00687",
                .licence = "Apache-2.0",
                .takes = {"logits", "labels"}})

}  // namespace attnlab
