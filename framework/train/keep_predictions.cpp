#include "framework/train/keep_predictions.h"

#include <fmt/format.h>

#include <map>
#include <vector>

#include "framework/base/files.h"
#include "framework/data/formats/safetensors.h"
#include "framework/runs/predictions.h"

namespace attnlab {
namespace {

constexpr std::uint64_t kNumber = 8;           // bytes of each
constexpr std::uint64_t kHeader = 128 * 1024;  // more than that of hundreds of metrics takes

void check_size(const BuiltRun& overlay, const EvaluationEntry& entry) {
  const Split split = entry.options.split == "test" ? Split::test : Split::validation;
  const auto examples = static_cast<std::uint64_t>(overlay.dataset->size(split));
  const std::uint64_t columns = 2 + overlay.task->metrics().size();
  if (examples <= (kLargestRecord - kHeader) / (columns * kNumber)) return;
  throw ConfigError(fmt::format(
      "evaluate.{}.predictions: {} examples with {} metrics each are more than the {} MiB that a "
      "file of predictions may have; let the entry ask fewer examples (set: {{dataset: {{...}}}})",
      entry.name, examples, columns - 2, kLargestRecord >> 20));
}

/// Grows by examples; metrics that one of them lacks go.
class Columns {
 public:
  void add(const ExampleMetrics& example) {
    if (examples_.empty()) {
      for (const auto& [name, value] : example.metrics) scores_[name];
    }
    examples_.push_back(example.example);
    terms_.push_back(example.terms);
    for (auto column = scores_.begin(); column != scores_.end();) {
      const auto found = example.metrics.find(column->first);
      if (found == example.metrics.end()) {
        column = scores_.erase(column);
      } else {
        (column++)->second.push_back(found->second);
      }
    }
  }

  TensorFile file(const EvaluationEntry& entry, const std::string& data) const {
    TensorFile out;
    out.tensors.set(kPredictedExamples, at::tensor(examples_, at::kLong));
    out.tensors.set(kPredictedTerms, at::tensor(terms_, at::kDouble));
    for (const auto& [name, values] : scores_) {
      out.tensors.set(kPredictedScore + name, at::tensor(values, at::kDouble));
    }
    out.metadata = {{"entry", entry.name}, {"split", entry.options.split}, {"data", data}};
    return out;
  }

 private:
  std::vector<std::int64_t> examples_;
  std::vector<double> terms_;
  std::map<std::string, std::vector<double>> scores_;
};

}  // namespace

std::string keep_predictions(BuiltRun& overlay, const EvaluationEntry& entry,
                             const std::string& path, const std::atomic<bool>& stop,
                             Fitted& fitted) {
  check_size(overlay, entry);
  Columns columns;
  evaluate_overlay_examples(
      overlay, entry, stop, [&](const ExampleMetrics& example) { columns.add(example); }, &fitted);
  write_safetensors(path, columns.file(entry, overlay.dataset->info().fingerprint));
  return hex(*file_fingerprint(path));
}

}  // namespace attnlab
