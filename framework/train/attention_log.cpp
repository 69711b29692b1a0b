#include "framework/train/attention_log.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace attnlab {
namespace {

/// Mean and largest of numbers that come in pieces; not a number once one of them is not.
class Tally {
 public:
  void add(const Tensor& values) {
    if (!values.defined() || values.numel() == 0) return;
    raise(values);
    sum_ += values.sum(at::kDouble).item<double>();
    count_ += values.numel();
  }
  /// The largest alone: of logits, where hidden pairs are -inf.
  void raise(const Tensor& values) {
    if (!values.defined() || values.numel() == 0) return;
    const double largest = values.max().item<double>();
    if (std::isnan(largest) || largest > largest_) largest_ = largest;
    any_ = true;
  }
  bool any() const { return any_; }
  double mean() const { return sum_ / static_cast<double>(count_); }
  double largest() const { return largest_; }

 private:
  bool any_ = false;
  double sum_ = 0, largest_ = -std::numeric_limits<double>::infinity();
  std::int64_t count_ = 0;
};

struct LayerTally {
  Tally logits, query_norms, key_norms, entropy;

  void add(const LayerTrace& seen) {
    logits.raise(seen.logits);
    query_norms.add(seen.query_norms);
    key_norms.add(seen.key_norms);
    entropy.add(seen.entropy);
  }
};

using ByCall = std::map<std::pair<std::int64_t, std::int64_t>, LayerTally>;  // (layer, call)

/// Evaluation mode for a while; every module gets its own mode back.
class EvaluationMode {
 public:
  explicit EvaluationMode(Model& model) {
    for (const auto& module : model.modules()) modes_.emplace_back(module, module->is_training());
    model.eval();
  }
  ~EvaluationMode() {
    // Parents come first: what they set for all their children is set right by the children.
    for (const auto& [module, training] : modes_) module->train(training);
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> modes_;
};

bool contains(const std::vector<std::string>& list, const char* item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

AttentionTrace trace_of(const std::vector<std::string>& record) {
  AttentionTrace trace;
  trace.logits = contains(record, "logit_max");
  trace.norms = contains(record, "query_norm") || contains(record, "key_norm");
  trace.entropy = contains(record, "entropy");
  return trace;
}

void trace_pass(Model& model, const Batch& batch, const std::vector<std::string>& record,
                ByCall& tallies) {
  std::map<std::int64_t, std::int64_t> calls;  // by layer
  AttentionTrace trace = trace_of(record);
  trace.on_layer = [&](const LayerTrace& seen) {
    tallies[{seen.layer, calls[seen.layer]++}].add(seen);
  };
  ForwardPass pass;
  pass.trace = &trace;
  model.forward(batch, pass);
}

Metrics numbers_of(const LayerTally& tally, const std::vector<std::string>& record) {
  Metrics numbers;
  if (tally.logits.any()) numbers["logit_max"] = tally.logits.largest();
  const auto norms = [&](const std::string& name, const Tally& of) {
    if (!of.any() || !contains(record, name.c_str())) return;
    numbers[name + "_mean"] = of.mean();
    numbers[name + "_max"] = of.largest();
  };
  norms("query_norm", tally.query_norms);
  norms("key_norm", tally.key_norms);
  if (tally.entropy.any()) numbers["entropy"] = tally.entropy.mean();
  return numbers;
}

}  // namespace

bool trace_due(const TraceOptions& options, std::int64_t step) {
  return options.every > 0 && (step == 1 || step % options.every == 0);
}

std::vector<LayerSummary> summarise_attention(Model& model, const std::vector<Batch>& parts,
                                              const std::vector<std::string>& record) {
  ByCall tallies;
  {
    const c10::NoGradGuard no_gradients;
    const EvaluationMode mode(model);
    for (const Batch& part : parts) trace_pass(model, part, record, tallies);
  }
  if (tallies.empty()) {
    throw ConfigError(
        "trace: no attention layer of the model recorded anything: the model has none, or does "
        "not hand ForwardPass::trace to it; leave `trace` out, or set trace.every to 0");
  }
  std::vector<LayerSummary> summaries;
  for (const auto& [call, tally] : tallies) {
    summaries.push_back({call.first, call.second, numbers_of(tally, record)});
  }
  return summaries;
}

}  // namespace attnlab
