// Focal classification: a loss that looks away from what is right already, and metrics that count
// every class alike.
//
//   loss              = - mean (1 - p_y)^gamma log p_y,   p = softmax(logits)
//   balanced_accuracy = mean over classes of the share of its examples that are right
//   nll               = - mean log p_y
//
// gamma = 0 is cross entropy. A class without examples does not count in balanced_accuracy.
// Source: Lin et al., Focal loss for dense object detection, ICCV 2017, arXiv:1708.02002.
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct FocalOptions {
  double gamma = 2;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("gamma", gamma, range(0, 10), "how much less what is right already counts; 0: cross entropy");
  }
};

/// The field "class", checked against logits [B, K].
const Tensor& checked_classes(const Tensor& logits, const Batch& batch) {
  const Tensor& classes = batch.fields.at("class");
  if (logits.dim() != 2 || classes.dim() != 1 || classes.size(0) != logits.size(0)) {
    throw ShapeError("focal_classification: logits must be [B, K] for class [B], found " +
                     describe(logits) + " and " + describe(classes));
  }
  // To read numbers of another device would wait for it; the meter reads them anyway.
  if (classes.device().is_cpu() &&
      classes.lt(0).logical_or(classes.ge(logits.size(1))).any().item<bool>()) {
    throw DataError("class: the batch has a class that is not 0 to " +
                    std::to_string(logits.size(1) - 1));
  }
  return classes;
}

/// log p_y of each example, [B].
Tensor log_probability(const Tensor& logits, const Tensor& classes) {
  return logits.log_softmax(-1).gather(1, classes.unsqueeze(1)).squeeze(1);
}

class BalancedMeter final : public Meter {
 public:
  void add(const NamedTensors& outputs, const Batch& batch) override {
    const Tensor logits = outputs.at("logits").detach().to(at::kCPU, at::kDouble);
    Batch here = batch;
    here.fields.set("class", batch.fields.at("class").to(at::kCPU));
    const Tensor& classes = checked_classes(logits, here);
    const Tensor right = logits.argmax(-1).eq(classes).to(at::kDouble);
    const Tensor zeros = at::zeros({logits.size(1)}, at::kDouble);
    if (!count_.defined()) count_ = right_ = zeros;
    count_ = count_ + zeros.index_add(0, classes, at::ones_like(right));
    right_ = right_ + zeros.index_add(0, classes, right);
    nll_ -= log_probability(logits, classes).sum().item<double>();
  }

  Metrics result() const override {
    if (!count_.defined()) throw Error("evaluation: no examples were given; is the split empty?");
    const Tensor there = count_.gt(0);
    const Tensor shares = right_.masked_select(there) / count_.masked_select(there);
    return {{"balanced_accuracy", shares.mean().item<double>()},
            {"nll", nll_ / count_.sum().item<double>()}};
  }

 private:
  Tensor count_, right_;  ///< [K] float64, of each class
  double nll_ = 0;
};

class FocalClassification final : public Task {
 public:
  FocalClassification(const FocalOptions& options, const TaskSetup& setup) : gamma_(options.gamma) {
    if (setup.data.classes < 1) {
      throw DataError("dataset '" + setup.data.name + "' has no classes to tell apart");
    }
  }

  Tensor loss(const NamedTensors& outputs, const Batch& batch) const override {
    const Tensor& logits = outputs.at("logits");
    const Tensor log_p = log_probability(logits, checked_classes(logits, batch));
    return -((1 - log_p.exp()).clamp_min(0).pow(gamma_) * log_p).mean();
  }

  std::unique_ptr<Meter> meter() const override { return std::make_unique<BalancedMeter>(); }

  std::vector<MetricInfo> metrics() const override {
    return {{"balanced_accuracy", Better::higher, "share"}, {"nll", Better::lower, "nats"}};
  }

 private:
  double gamma_;
};

}  // namespace

ATTNLAB_PLUGIN(task, FocalClassification, FocalOptions,
               {.id = "attnlab/focal_classification",
                .version = "1.0.0",
                .summary = "one class per example: focal loss, balanced accuracy, NLL",
                .citation = "Lin et al. 2017, arXiv:1708.02002",
                .licence = "Apache-2.0",
                .takes = {"logits", "class"},
                .ensemble = true})

}  // namespace attnlab
