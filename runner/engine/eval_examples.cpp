#include "runner/engine/eval_examples.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/runs/missing_evaluations.h"
#include "framework/train/checkpoint.h"
#include "framework/train/evaluation.h"
#include "runner/engine/engine.h"

namespace attnlab {
namespace {

class ExampleTable {
 public:
  /// Metrics that it has columns for; they stand in the order in which they come.
  void expect(const Task& task) {
    for (const MetricInfo& info : task.metrics()) {
      const bool known = std::find(columns_.begin(), columns_.end(), info.name) != columns_.end();
      if (!known) columns_.push_back(info.name);
    }
  }

  void add(const std::string& evaluation, const ExampleMetrics& example) {
    rows_.emplace_back(evaluation, example);
  }

  std::string csv() const {
    std::string text = "evaluation,example,terms," + join(columns_, ",") + "\n";
    for (const auto& [evaluation, row] : rows_) {
      text += fmt::format("{},{},{}", evaluation, row.example, shortest(row.terms));
      for (const std::string& column : columns_) {
        const auto found = row.metrics.find(column);
        text += ',';
        if (found != row.metrics.end()) text += shortest(found->second);
      }
      text += "\n";
    }
    return text;
  }

 private:
  std::vector<std::string> columns_;
  std::vector<std::pair<std::string, ExampleMetrics>> rows_;
};

}  // namespace

void write_examples(const std::string& path, BuiltRun& run, const RunFolder& folder,
                    const std::vector<EvaluationEntry>& entries, bool clean, Registry& registry) {
  ExampleTable table;
  if (clean) {
    table.expect(*run.task);
    evaluate_examples(run, Split::test, stop_requested(),
                      [&](const ExampleMetrics& example) { table.add(kClean, example); });
  }
  const std::string weights_path = weights_file(run.experiment, folder);
  const NamedTensors weights = entries.empty() ? NamedTensors{} : read_sealed(weights_path).tensors;
  for (const EvaluationEntry& entry : entries) {
    BuiltRun overlay = overlaid(run, entry, registry);
    take_weights(overlay, run, entry, weights, weights_path);
    table.expect(*overlay.task);
    evaluate_overlay_examples(overlay, entry, stop_requested(), [&](const ExampleMetrics& example) {
      table.add(entry.name, example);
    });
  }
  write_file(path, table.csv());
}

}  // namespace attnlab
