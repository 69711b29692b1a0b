#include "framework/train/selection.h"

#include <cmath>

#include "framework/base/text.h"
#include "framework/comparison/comparison.h"

namespace attnlab {
namespace {

bool direction(const EarlyStopOptions& options, const std::string& metric,
               const MetricInfo& headline) {
  if (options.mode != "auto") return options.mode == "max";
  if (metric == headline.name) return headline.better == Better::higher;
  if (const auto known = higher_is_better(metric)) return *known;
  throw ConfigError("train.early_stop.mode: whether a larger '" + metric +
                    "' is better does not follow from its name; say max or min");
}

}  // namespace

EpochSelection::EpochSelection(const TrainOptions& train, const MetricInfo& headline)
    : active_(train.protocol != "last"),
      split_(train.protocol == "published" ? Split::test : Split::validation),
      metric_(train.early_stop.metric.empty() ? headline.name : train.early_stop.metric),
      patience_(train.early_stop.patience) {
  if (active_) higher_ = direction(train.early_stop, metric_, headline);
}

bool EpochSelection::judge(const Metrics& metrics, std::int64_t epoch, BestEpoch& best) const {
  const auto found = metrics.find(metric_);
  if (found == metrics.end()) {
    std::vector<std::string> names;
    names.reserve(metrics.size());
    for (const auto& [name, value] : metrics) names.push_back(name);
    throw ConfigError("train.early_stop.metric: the task gives no '" + metric_ + "'" +
                      suggestion(metric_, names) + "; it gives " + join(names, ", "));
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
