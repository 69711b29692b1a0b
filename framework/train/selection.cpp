#include "framework/train/selection.h"

#include <fmt/format.h>

#include <cmath>

#include "framework/base/text.h"
#include "framework/runs/metric_infos.h"

namespace attnlab {
namespace {

MetricInfo metric_of(const EarlyStopOptions& options, const std::vector<MetricInfo>& metrics) {
  if (metrics.empty()) throw ConfigError("train.protocol: the task states no metric to choose by");
  if (options.metric.empty()) return metrics.front();
  if (const auto found = find_metric(metrics, options.metric)) return *found;
  throw ConfigError(fmt::format("train.early_stop.metric: the task gives no '{}'{}; it gives {}",
                                options.metric, suggestion(options.metric, names_of(metrics)),
                                join(names_of(metrics), ", ")));
}

bool direction(const EarlyStopOptions& options, const MetricInfo& metric) {
  if (options.mode != "auto") return options.mode == "max";
  if (metric.better != Better::neither) return metric.better == Better::higher;
  throw ConfigError(
      fmt::format("train.early_stop.mode: the task does not say whether a larger '{}' is better; "
                  "say max or min",
                  metric.name));
}

}  // namespace

EpochSelection::EpochSelection(const TrainOptions& train, const std::vector<MetricInfo>& metrics)
    : active_(train.protocol != "last"),
      split_(train.protocol == "published" ? Split::test : Split::validation),
      patience_(train.early_stop.patience) {
  if (!active_) return;
  const MetricInfo metric = metric_of(train.early_stop, metrics);
  metric_ = metric.name;
  higher_ = direction(train.early_stop, metric);
}

bool EpochSelection::judge(const Metrics& metrics, std::int64_t epoch, BestEpoch& best) const {
  const auto found = metrics.find(metric_);
  if (found == metrics.end()) {
    std::vector<std::string> names;
    names.reserve(metrics.size());
    for (const auto& [name, value] : metrics) names.push_back(name);
    throw ConfigError(
        fmt::format("train.early_stop.metric: the task states '{}' and did not give it; it gave {}",
                    metric_, join(names, ", ")));
  }
  const double value = found->second;
  const bool better = best.epoch == 0 || std::isnan(best.value) ||
                      (higher_ ? value >= best.value : value <= best.value);
  if (!better) {
    ++best.stale;
    return false;
  }
  best = {epoch, value, 0};
  return true;
}

bool EpochSelection::exhausted(const BestEpoch& best) const {
  return active_ && patience_ > 0 && best.stale >= patience_;
}

}  // namespace attnlab
