// Sequence pairs: one or more classes for each pair of sequences, e.g. one for each token.
//
//   loss              mean cross entropy over all targets of all examples, with label smoothing
//   accuracy          share of targets whose class has the largest logit: of tokens where each has
//   a
//                     target (sorting), of start indices where there is one (retrieval)
//   example_accuracy  share of examples whose every target is right
//   nll, and top5 from five classes on
//
// Source: the metrics of Indirect Attention, section 6.1.
#include <fmt/format.h>

#include "framework/eval/classification.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

/// Logits [B, T, K] and targets [B, T] of outputs and batch, checked.
std::pair<const Tensor&, const Tensor&> judged(const NamedTensors& outputs, const Batch& batch) {
  const Tensor& logits = outputs.at("logits");
  const Tensor& targets = batch.fields.at("targets");
  if (logits.dim() == 3 && targets.dim() == 2 && logits.size(0) == targets.size(0) &&
      logits.size(1) == targets.size(1)) {
    return {logits, targets};
  }
  throw ShapeError(
      fmt::format("sequence_pairs: logits must be [B, T, K] for targets [B, T], found {} and {}",
                  describe(logits), describe(targets)));
}

/// Every target as an example of its own: logits [B * T, K] and the field "class" [B * T].
std::pair<NamedTensors, Batch> one_by_one(const NamedTensors& outputs, const Batch& batch) {
  const auto& [logits, targets] = judged(outputs, batch);
  Batch flat;
  flat.size = targets.numel();
  flat.fields.set("class", targets.flatten());
  return {{{"logits", logits.flatten(0, 1)}}, std::move(flat)};
}

class PairsMeter final : public Meter {
 public:
  void add(const NamedTensors& outputs, const Batch& batch) override {
    const auto& [logits, targets] = judged(outputs, batch);
    const auto& [flat_outputs, flat] = one_by_one(outputs, batch);
    single_.add(flat_outputs, flat);
    const Tensor right =
        right_of(logits.detach().flatten(0, 1), targets.flatten()).view_as(targets).all(1);
    examples_ += right.numel();
    right_ += right.sum().item<std::int64_t>();
  }

  Metrics result() const override {
    Metrics metrics = single_.result();
    metrics["example_accuracy"] = static_cast<double>(right_) / static_cast<double>(examples_);
    return metrics;
  }

 private:
  ClassificationMeter single_;  ///< of targets one by one
  std::int64_t examples_ = 0, right_ = 0;
};

class SequencePairs final : public ClassificationTask {
 public:
  SequencePairs(const ClassificationOptions& options, const TaskSetup& setup)
      : ClassificationTask(options, setup) {}

  Tensor loss(const NamedTensors& outputs, const Batch& batch) const override {
    const auto& [flat_outputs, flat] = one_by_one(outputs, batch);
    return ClassificationTask::loss(flat_outputs, flat);
  }

  Tensor losses(const NamedTensors& outputs, const Batch& batch,
                std::int64_t members) const override {
    const auto& [flat_outputs, flat] = one_by_one(outputs, batch);
    return ClassificationTask::losses(flat_outputs, flat, members);
  }

  std::unique_ptr<Meter> meter() const override { return std::make_unique<PairsMeter>(); }

  std::vector<MetricInfo> metrics() const override {
    std::vector<MetricInfo> metrics = ClassificationTask::metrics();
    metrics.push_back({"example_accuracy", Better::higher, "share"});
    return metrics;
  }
};

}  // namespace

ATTNLAB_PLUGIN(task, SequencePairs, ClassificationOptions,
               {.id = "attnlab/sequence_pairs",
                .version = "1.0.0",
                .summary = "one class per pair of sequences, or one per token: accuracy, NLL",
                .citation = "Bahaduri et al., Indirect Attention: Turning Context Misalignment "
                            "into a Feature, section 6.1",
                .licence = "Apache-2.0",
                .takes = {"logits", "targets"},
                .ensemble = true})

}  // namespace attnlab
