// Numbers of a graph, some of them unknown (NaN).
//
//   loss = mean over known labels of |z - y| (l1) or (z - y)^2 (mse), as the dataset gives y
//   mae  = mean over targets of the mean of |z - y|
//   rmse = mean over targets of the root of the mean of (z - y)^2
//
// Metrics are in the targets' own units: where the dataset scales its targets by statistics of the
// training split (FieldInfo::mean and deviation of `labels`), errors are scaled back.
// Source: the metrics of Dwivedi et al. 2022 (LRGB) and of OGB's evaluator.
#include <cmath>

#include "framework/eval/label_table.h"
#include "framework/plugin.h"

namespace attnlab {
namespace {

struct GraphRegressionOptions {
  std::string loss = "l1", headline = "mae";

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("loss", loss, one_of("l1", "mse"), "training loss: absolute or squared errors");
    v("headline", headline, one_of("mae", "rmse"), "the metric that runs are judged by");
  }
};

class ErrorMeter final : public Meter {
 public:
  /// @param units  of each target, in its own units
  explicit ErrorMeter(const std::vector<double>& units) : units_(units) {}

  void add(const NamedTensors& outputs, const Batch& batch) override {
    columns_.add(outputs, batch);
  }

  Metrics result() const override {
    double mae = 0, rmse = 0, targets = 0;
    const auto& columns = columns_.targets();
    for (std::size_t t = 0; t < columns.size(); ++t) {
      double absolute = 0, squares = 0;
      for (const auto& [output, label] : columns[t]) {
        const double error = (output - label) * (units_.empty() ? 1 : units_[t]);
        absolute += std::abs(error);
        squares += error * error;
      }
      const auto count = static_cast<double>(columns[t].size());
      if (count == 0) continue;  // a target that nobody measured in this split
      mae += absolute / count;
      rmse += std::sqrt(squares / count);
      targets += 1;
    }
    if (targets == 0) throw DataError("labels: none is known in this split");
    return {{"mae", mae / targets}, {"rmse", rmse / targets}};
  }

 private:
  std::vector<double> units_;
  LabelColumns columns_;
};

class GraphRegression final : public Task {
 public:
  GraphRegression(const GraphRegressionOptions& options, const TaskSetup& setup)
      : squares_(options.loss == "mse"),
        by_rmse_(options.headline == "rmse"),
        units_(labels_of(setup.data).deviation) {}

  Tensor loss(const NamedTensors& outputs, const Batch& batch) const override {
    const auto [found, wanted] = known_labels(outputs, batch);
    if (found.numel() == 0) return outputs.at("logits").sum() * 0;
    return squares_ ? at::mse_loss(found, wanted) : at::l1_loss(found, wanted);
  }

  double weight(const Batch& batch) const override { return count_known_labels(batch); }

  std::unique_ptr<Meter> meter() const override { return std::make_unique<ErrorMeter>(units_); }

  std::vector<MetricInfo> metrics() const override {
    const MetricInfo mae = {"mae", Better::lower}, rmse = {"rmse", Better::lower};
    return {by_rmse_ ? rmse : mae, by_rmse_ ? mae : rmse};
  }

 private:
  bool squares_, by_rmse_;
  std::vector<double> units_;  ///< of each target; empty: 1
};

}  // namespace

ATTNLAB_PLUGIN(
    task, GraphRegression, GraphRegressionOptions,
    {.id = "attnlab/graph_regression",
     .version = "1.0.0",
     .summary = "one or more numbers per graph: mean absolute and root mean squared error",
     .licence = "Apache-2.0",
     .takes = {"logits", "labels"}})

}  // namespace attnlab
