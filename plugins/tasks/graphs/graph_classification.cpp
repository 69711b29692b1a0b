// Graph classification: one class per graph.
//
//   loss     = cross entropy of the logits with label smoothing (Szegedy et al. 2016)
//   accuracy, nll and, from five classes on, top5, without smoothing
//   roc_auc  = area under the ROC curve; of more than two classes the mean over classes, each by
//              its probability against all others
//
// A class that all graphs of a split are of, or none, has no ROC curve and is left out; a split
// without any other is an error (roc_auc: none leaves the metric out).
#include <limits>

#include "framework/eval/classification.h"
#include "framework/eval/ranking.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct GraphClassificationOptions : ClassificationOptions {
  std::string roc_auc = "beside";

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    ClassificationOptions::describe(v);
    v("roc_auc", roc_auc, one_of("beside", "headline", "none"),
      "area under the ROC curve: reported beside accuracy, the metric that runs are judged by, or "
      "not measured");
  }
};

class GraphMeter final : public Meter {
 public:
  explicit GraphMeter(bool ranks) : ranks_(ranks) {}

  void add(const NamedTensors& outputs, const Batch& batch) override {
    single_.add(outputs, batch);
    if (!ranks_) return;
    logits_.push_back(outputs.at("logits").detach().to(at::kCPU, at::kDouble));
    classes_.push_back(batch.fields.at("class").to(at::kCPU));
  }

  Metrics result() const override {
    Metrics metrics = single_.result();
    if (!ranks_) return metrics;
    const std::optional<double> area = mean_area();
    if (!area) {
      throw UndefinedMetrics(
          "graph_classification: all graphs of this split are of one class, so that "
          "there is no ROC curve; take a larger split, or set roc_auc: none",
          metrics);
    }
    metrics["roc_auc"] = *area;
    return metrics;
  }

 private:
  /// Empty where all graphs are of one class.
  std::optional<double> mean_area() const {
    const Tensor logits = at::cat(logits_), classes = at::cat(classes_);
    const std::int64_t count = logits.size(1);
    const auto* label = classes.data_ptr<std::int64_t>();
    double sum = 0, areas = 0;
    for (std::int64_t k = count == 2 ? 1 : 0; k < count; ++k) {
      // Ranked by log-odds: probabilities of confident models are 1, all of them.
      const Tensor others = logits.index_fill(1, at::tensor({k}, at::kLong),
                                              -std::numeric_limits<double>::infinity());
      const Tensor odds = (logits.select(1, k) - others.logsumexp(1)).contiguous();
      std::vector<Scored> scored;
      for (std::int64_t i = 0; i < odds.size(0); ++i) {
        scored.push_back({odds.data_ptr<double>()[i], label[i] == k});
      }
      const std::optional<double> area = roc_auc(std::move(scored));
      if (!area) continue;
      sum += *area;
      areas += 1;
    }
    if (areas == 0) return {};
    return sum / areas;
  }

  bool ranks_;
  ClassificationMeter single_;
  std::vector<Tensor> logits_, classes_;
};

class GraphClassification final : public ClassificationTask {
 public:
  GraphClassification(const GraphClassificationOptions& options, const TaskSetup& setup)
      : ClassificationTask(options, setup), roc_auc_(options.roc_auc) {}

  std::unique_ptr<Meter> meter() const override {
    return std::make_unique<GraphMeter>(roc_auc_ != "none");
  }

  std::vector<MetricInfo> metrics() const override {
    std::vector<MetricInfo> metrics = ClassificationTask::metrics();
    if (roc_auc_ == "none") return metrics;
    metrics.insert(roc_auc_ == "headline" ? metrics.begin() : metrics.end(),
                   {"roc_auc", Better::higher, "share"});
    return metrics;
  }

 private:
  std::string roc_auc_;
};

}  // namespace

ATTNLAB_PLUGIN(task, GraphClassification, GraphClassificationOptions,
               {.id = "attnlab/graph_classification",
                .version = "1.0.0",
                .summary = "one class per graph: cross entropy, accuracy, ROC-AUC, NLL",
                .licence = "Apache-2.0",
                .takes = {"logits", "class"},
                .ensemble = true})

}  // namespace attnlab
