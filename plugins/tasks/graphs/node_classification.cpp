// Node classification: one class per node; nodes without one (negative) do not count.
//
//   loss     = sum_i w_{y_i} nll_i / sum_i w_{y_i},   nll_i = -log softmax(z_i)[y_i]
//              class_weights: none   w = 1
//              class_weights: batch  w_c = (V - n_c) / V for n_c of a batch's V nodes of class c
//   accuracy = share of nodes whose class has the largest logit
//   recall   = mean over classes of the share of their nodes that are right: PATTERN's, CLUSTER's
//   f1       = mean over classes of their F1: that of LRGB's superpixels
//   nll      = mean of nll_i
//
// Classes that no node of a split has do not count in `recall`; ones that are not even predicted do
// not in `f1`. A batch of one class alone has all weights 0; they are then 1.
// Sources: Dwivedi et al., JMLR 2023 (weights and recall); GraphGPS's public code.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/eval/classification.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct NodeClassificationOptions {
  std::string class_weights = "none", headline = "accuracy";

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("class_weights", class_weights, one_of("none", "batch"),
      "class weights of the loss; batch: rarer classes of a batch count more");
    v("headline", headline, one_of("accuracy", "recall", "f1"),
      "the metric that runs are judged by");
  }
};

/// Nodes that have a class.
struct Counted {
  Tensor logits, classes;  ///< [M, K], [M]
};

Counted counted(const NamedTensors& outputs, const Batch& batch) {
  const Tensor &logits = outputs.at("logits@node"), &classes = batch.fields.at("class@node");
  if (logits.dim() != 2 || classes.dim() != 1 || classes.size(0) != logits.size(0)) {
    throw ShapeError(fmt::format(
        "node_classification: logits@node must be [N, K] for class@node [N], found {} and {}",
        describe(logits), describe(classes)));
  }
  const Tensor places = classes.ge(0).nonzero().squeeze(1);
  return {logits.index_select(0, places), classes.index_select(0, places)};
}

class NodeMeter final : public Meter {
 public:
  void add(const NamedTensors& outputs, const Batch& batch) override {
    const auto [logits, classes] = counted(outputs, batch);
    if (classes.numel() == 0) return;
    Batch nodes;
    nodes.size = classes.size(0);
    nodes.fields.set("class", classes);
    single_.add({{"logits", logits}}, nodes);
    // Logits that are not numbers are not an answer: the largest of them would be class 0.
    const Tensor none = logits.detach().isnan().any(-1);
    const Tensor found = logits.detach().argmax(-1).masked_fill(none, logits.size(1)).to(at::kCPU);
    const Tensor wanted = classes.to(at::kCPU).contiguous();
    classes_ = static_cast<std::size_t>(logits.size(1));
    confusion_.resize(classes_ * (classes_ + 1));
    for (std::int64_t i = 0; i < wanted.numel(); ++i) {
      const auto row = static_cast<std::size_t>(wanted.data_ptr<std::int64_t>()[i]);
      confusion(row, static_cast<std::size_t>(found.data_ptr<std::int64_t>()[i])) += 1;
    }
  }

  Metrics result() const override {
    const Metrics single = single_.result();
    double recall = 0, with_nodes = 0, f1 = 0, seen = 0;
    for (std::size_t k = 0; k < classes_; ++k) {
      double of_class = 0, predicted = 0;
      for (std::size_t other = 0; other <= classes_; ++other) of_class += confusion(k, other);
      for (std::size_t other = 0; other < classes_; ++other) predicted += confusion(other, k);
      const double right = confusion(k, k);
      if (of_class > 0) {
        recall += right / of_class;
        with_nodes += 1;
      }
      if (of_class + predicted > 0) {
        f1 += 2 * right / (of_class + predicted);
        seen += 1;
      }
    }
    return {{"accuracy", single.at("accuracy")},
            {"recall", recall / with_nodes},
            {"f1", f1 / seen},
            {"nll", single.at("nll")}};
  }

 private:
  /// Nodes of a class by what the model said; answer K: nothing.
  double& confusion(std::size_t of, std::size_t answer) {
    return confusion_[of * (classes_ + 1) + answer];
  }
  double confusion(std::size_t of, std::size_t answer) const {
    return confusion_[of * (classes_ + 1) + answer];
  }

  ClassificationMeter single_;  ///< of nodes one by one
  std::size_t classes_ = 0;
  std::vector<double> confusion_;  ///< [K, K + 1]
};

class NodeClassification final : public Task {
 public:
  NodeClassification(const NodeClassificationOptions& options, const TaskSetup& setup)
      : weighted_(options.class_weights == "batch"), headline_(options.headline) {
    if (setup.data.classes > 0) return;
    throw DataError(fmt::format("dataset '{}' has no classes to tell apart", setup.data.name));
  }

  Tensor loss(const NamedTensors& outputs, const Batch& batch) const override {
    const auto [logits, classes] = counted(outputs, batch);
    if (classes.numel() == 0) return logits.sum() * 0;
    // Checks shapes and classes; without weights it is all.
    const Tensor plain = classification_loss(logits, classes, 0);
    if (!weighted_) return plain;
    return at::cross_entropy_loss(logits, classes, weights_of(classes, logits));
  }

  double weight(const Batch& batch) const override {
    return batch.fields.at("class@node").ge(0).sum().item<double>();
  }

  std::unique_ptr<Meter> meter() const override { return std::make_unique<NodeMeter>(); }

  std::vector<MetricInfo> metrics() const override {
    std::vector<MetricInfo> metrics = {{"accuracy", Better::higher, "share"},
                                       {"recall", Better::higher, "share"},
                                       {"f1", Better::higher, "share"},
                                       {"nll", Better::lower, "nats"}};
    std::stable_partition(metrics.begin(), metrics.end(),
                          [&](const MetricInfo& metric) { return metric.name == headline_; });
    return metrics;
  }

 private:
  /// (V - n_c) / V, [K]; 0 for a class that the batch lacks.
  static Tensor weights_of(const Tensor& classes, const Tensor& logits) {
    const Tensor count = at::bincount(classes, {}, logits.size(1)).to(logits.scalar_type());
    const auto all = static_cast<double>(classes.numel());
    const Tensor weights = (all - count) / all * count.gt(0);
    return weights.sum().item<double>() > 0 ? weights : at::ones_like(weights);
  }

  bool weighted_;
  std::string headline_;
};

}  // namespace

ATTNLAB_PLUGIN(task, NodeClassification, NodeClassificationOptions,
               {.id = "attnlab/node_classification",
                .version = "1.0.0",
                .summary = "one class per node: cross entropy, accuracy, recall by class, F1, NLL",
                .citation = "Dwivedi et al., Benchmarking graph neural networks, JMLR 2023, "
                            "arXiv:2003.00982",
                .licence = "Apache-2.0",
                .takes = {"logits@node", "class@node"}})

}  // namespace attnlab
