#include "framework/train/attention_log.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "framework/base/json.h"
#include "framework/train/step.h"

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

/// The query and the key of the largest logit.
class LargestPair {
 public:
  void add(const LayerTrace& seen) {
    const Tensor &logits = seen.logits, &queries = seen.query_norms, &keys = seen.key_norms;
    if (!logits.defined() || logits.numel() == 0 || !queries.defined() || !keys.defined()) return;
    const auto at = logits.argmax().item<std::int64_t>();  // not a number before all that are
    const double logit = logits.flatten()[at].item<double>();
    if (logit == -std::numeric_limits<double>::infinity()) return;  // nobody sees anything
    if (any_ && (std::isnan(logit_) || logit <= logit_)) return;
    const std::int64_t pair = at % (logits.size(2) * logits.size(3));
    const std::int64_t head = at / (logits.size(2) * logits.size(3));  // of all examples' heads
    any_ = true;
    logit_ = logit;
    query_ = queries.flatten(0, 1)[head][pair / logits.size(3)].item<double>();
    key_ = keys.flatten(0, 1)[head][pair % logits.size(3)].item<double>();
  }
  bool any() const { return any_; }
  double query_norm() const { return query_; }
  double key_norm() const { return key_; }

 private:
  bool any_ = false;
  double logit_ = 0, query_ = 0, key_ = 0;
};

/// Sums of a bias by offset and head.
class OffsetTally {
 public:
  /// @param bias  [B or 1, H, Lq, Lk]
  void add(const Tensor& bias) {
    if (!bias.defined() || bias.numel() == 0) return;
    for (std::int64_t offset = 1 - bias.size(2); offset < bias.size(3); ++offset) {
      const Tensor pairs = bias.diagonal(offset, 2, 3);  // [B or 1, H, pairs]
      const Tensor sums = pairs.sum(at::IntArrayRef({0, 2}), false, at::kDouble).cpu();
      Sums& own = sums_[offset];
      own.heads.resize(static_cast<std::size_t>(sums.size(0)), 0.0);
      for (std::size_t h = 0; h < own.heads.size(); ++h) {
        own.heads[h] += sums.data_ptr<double>()[h];
      }
      own.count += static_cast<double>(pairs.size(0) * pairs.size(2));
    }
  }
  /// Empty where no layer has added any.
  std::optional<BiasByOffset> mean() const {
    if (sums_.empty()) return std::nullopt;
    BiasByOffset out;
    out.first = sums_.begin()->first;
    out.heads.resize(sums_.begin()->second.heads.size());
    for (const auto& [offset, own] : sums_) {  // without a gap: every part has the offset 0
      for (std::size_t h = 0; h < out.heads.size(); ++h) {
        out.heads[h].push_back(own.heads[h] / own.count);
      }
    }
    return out;
  }

 private:
  struct Sums {
    std::vector<double> heads;
    double count = 0;
  };
  std::map<std::int64_t, Sums> sums_;  // by offset
};

struct LayerTally {
  Tally logits, query_norms, key_norms, entropy;
  std::map<std::int64_t, Tally> by_kind;  ///< norms of keys
  LargestPair largest;
  OffsetTally bias;

  void add(const LayerTrace& seen) {
    logits.raise(seen.logits);
    largest.add(seen);
    query_norms.add(seen.query_norms);
    key_norms.add(seen.key_norms);
    entropy.add(seen.entropy);
    bias.add(seen.bias);
  }
};

using ByCall = std::map<std::pair<std::int64_t, std::int64_t>, LayerTally>;  // (layer, call)

/// Evaluation mode for a while; every module gets its own mode back.
class EvaluationModeOfAll {
 public:
  explicit EvaluationModeOfAll(Model& model) {
    for (const auto& module : model.modules()) modes_.emplace_back(module, module->is_training());
    model.eval();
  }
  ~EvaluationModeOfAll() {
    // Parents come first: what they set for all their children is set right by the children.
    for (const auto& [module, training] : modes_) module->train(training);
  }
  EvaluationModeOfAll(const EvaluationModeOfAll&) = delete;
  EvaluationModeOfAll& operator=(const EvaluationModeOfAll&) = delete;

 private:
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> modes_;
};

bool contains(const std::vector<std::string>& list, const char* item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

/// What the tokens of a batch are, [B, N] int64; undefined where nobody asks.
Tensor kinds_of(const Batch& batch, const std::vector<std::string>& record) {
  if (!contains(record, "key_norm_by_kind")) return {};
  const Tensor* kinds = batch.fields.find("kind");
  if (kinds == nullptr) {
    throw ConfigError(
        "trace.record: 'key_norm_by_kind' takes the field 'kind', which the batch does not have; "
        "leave it out, or take a dataset that gives it");
  }
  if (kinds->dim() != 2 || kinds->scalar_type() != at::kLong) {
    throw ShapeError(
        fmt::format("trace.record: 'key_norm_by_kind' takes the field 'kind' as [B, N] int64, "
                    "found {}; leave it out, or correct the dataset",
                    describe(*kinds)));
  }
  return *kinds;
}

/// @param norms  [B, H, Lk]; the last N keys are the tokens.
void add_by_kind(const LayerTrace& seen, const Tensor& kinds, std::map<std::int64_t, Tally>& out) {
  const Tensor& norms = seen.key_norms;
  if (!kinds.defined() || !norms.defined()) return;
  const std::int64_t tokens = kinds.size(1), keys = norms.size(2);
  if (norms.size(0) != kinds.size(0) || keys < tokens) {
    throw ShapeError(
        fmt::format("trace.record: 'key_norm_by_kind' takes a key for each token, the tokens last: "
                    "layer {} has norms of keys [B, H, Lk] = {}, the field 'kind' is [B, N] = {}; "
                    "leave 'key_norm_by_kind' out for this model",
                    seen.layer, describe(norms), describe(kinds)));
  }
  const Tensor of_tokens = norms.narrow(2, keys - tokens, tokens);
  const Tensor there = std::get<0>(at::_unique(kinds)).cpu();
  for (std::int64_t i = 0; i < there.size(0); ++i) {
    const auto kind = there.data_ptr<std::int64_t>()[i];
    if (kind >= 0) out[kind].add(of_tokens.masked_select((kinds == kind).unsqueeze(1)));
  }
}

/// "other", or "kind_0" where the dataset has no name for it.
std::string name_of_kind(std::int64_t kind, const DatasetInfo* data) {
  static const std::vector<std::string> kNone;
  const auto is_kind = [](const FieldInfo& field) { return field.name == "kind"; };
  const std::vector<std::string>* names = &kNone;
  if (data != nullptr) {
    const auto field = std::find_if(data->fields.begin(), data->fields.end(), is_kind);
    if (field != data->fields.end()) names = &field->values;
  }
  const auto at = static_cast<std::size_t>(kind);
  return at < names->size() ? (*names)[at] : fmt::format("kind_{}", kind);
}

AttentionTrace trace_of(const std::vector<std::string>& record) {
  AttentionTrace trace;
  trace.logits = contains(record, "logit_max") || contains(record, "logit_max_norms");
  trace.norms = contains(record, "logit_max_norms") || contains(record, "query_norm") ||
                contains(record, "key_norm") || contains(record, "key_norm_by_kind");
  trace.entropy = contains(record, "entropy");
  trace.bias = contains(record, "bias");
  return trace;
}

/// @param carried  null, or the pass's own
void trace_pass(Model& model, const Batch& batch, const std::vector<std::string>& record,
                NamedTensors* carried, ByCall& tallies) {
  std::map<std::int64_t, std::int64_t> calls;  // by layer
  const Tensor kinds = kinds_of(batch, record);
  AttentionTrace trace = trace_of(record);
  trace.on_layer = [&](const LayerTrace& seen) {
    LayerTally& tally = tallies[{seen.layer, calls[seen.layer]++}];
    tally.add(seen);
    add_by_kind(seen, kinds, tally.by_kind);
  };
  ForwardPass pass;
  pass.trace = &trace;
  pass.carried = carried;
  model.forward(batch, pass);
}

NamedTensors copied(const NamedTensors& carried, std::int64_t begin, std::int64_t size) {
  NamedTensors copy;
  for (const auto& [name, rows] : carried_rows(carried, begin, size)) copy.set(name, rows.clone());
  return copy;
}

Metrics numbers_of(const LayerTally& tally, const std::vector<std::string>& record,
                   const DatasetInfo* data) {
  Metrics numbers;
  if (tally.logits.any() && contains(record, "logit_max")) {
    numbers["logit_max"] = tally.logits.largest();
  }
  if (tally.largest.any() && contains(record, "logit_max_norms")) {
    numbers["logit_max_query_norm"] = tally.largest.query_norm();
    numbers["logit_max_key_norm"] = tally.largest.key_norm();
  }
  const auto norms = [&](const std::string& name, const Tally& of) {
    if (!of.any() || !contains(record, name.c_str())) return;
    numbers[name + "_mean"] = of.mean();
    numbers[name + "_max"] = of.largest();
  };
  norms("query_norm", tally.query_norms);
  norms("key_norm", tally.key_norms);
  if (tally.entropy.any()) numbers["entropy"] = tally.entropy.mean();
  for (const auto& [kind, of] : tally.by_kind) {
    numbers["key_norm_mean/" + name_of_kind(kind, data)] = of.mean();
  }
  return numbers;
}

}  // namespace

bool trace_due(const TraceOptions& options, std::int64_t step) {
  return options.every > 0 && (step == 1 || step % options.every == 0);
}

std::vector<LayerSummary> summarise_attention(Model& model, const std::vector<Batch>& parts,
                                              const std::vector<std::string>& record,
                                              const DatasetInfo* data,
                                              const NamedTensors* carried) {
  ByCall tallies;
  {
    const c10::NoGradGuard no_gradients;
    const EvaluationModeOfAll mode(model);
    std::int64_t begin = 0;
    for (const Batch& part : parts) {
      NamedTensors own = carried == nullptr ? NamedTensors() : copied(*carried, begin, part.size);
      trace_pass(model, part, record, carried == nullptr ? nullptr : &own, tallies);
      begin += part.size;
    }
  }
  if (tallies.empty()) {
    throw ConfigError(
        "trace: no attention layer of the model recorded anything: the model has none, or does "
        "not hand ForwardPass::trace to it; leave `trace` out, or set trace.every to 0");
  }
  std::vector<LayerSummary> summaries;
  for (const auto& [call, tally] : tallies) {
    summaries.push_back(
        {call.first, call.second, numbers_of(tally, record, data), tally.bias.mean()});
  }
  return summaries;
}

nlohmann::json trace_line(const LayerSummary& layer) {
  nlohmann::json line = nlohmann::json::object();
  for (const auto& [name, value] : layer.numbers) line[name] = finite_or_null(value);
  line["layer"] = layer.layer;
  if (layer.call > 0) line["call"] = layer.call;
  if (!layer.bias) return line;
  nlohmann::json heads = nlohmann::json::array();
  for (const std::vector<double>& head : layer.bias->heads) {
    nlohmann::json row = nlohmann::json::array();
    for (const double value : head) row.push_back(finite_or_null(value));
    heads.push_back(std::move(row));
  }
  line["bias"] = {{"first", layer.bias->first}, {"heads", std::move(heads)}};
  return line;
}

}  // namespace attnlab
