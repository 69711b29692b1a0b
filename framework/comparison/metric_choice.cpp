#include "framework/comparison/metric_choice.h"

#include <fmt/format.h>

#include <set>

#include "framework/base/text.h"

namespace attnlab {
namespace {

/// What the runs of an experiment that are done recorded.
using Recorded = std::map<std::string, std::set<std::string>>;

Recorded recorded_by(const std::vector<RunRecord>& runs) {
  Recorded recorded;
  for (const RunRecord& run : runs) {
    std::set<std::string>& names = recorded[run.experiment];
    if (!run.done()) continue;
    for (const auto& [name, value] : run.status.metrics) names.insert(name);
  }
  return recorded;
}

void refuse_unknown(const std::string& metric, const Recorded& recorded) {
  std::set<std::string> all;
  for (const auto& [experiment, names] : recorded) all.insert(names.begin(), names.end());
  if (all.empty() || all.count(metric) > 0) return;
  throw ConfigError(fmt::format("no run recorded the metric '{}'{} (choose with --metric)", metric,
                                suggestion(metric, {all.begin(), all.end()})));
}

MetricInfo headline_of(const std::string& experiment, const std::set<std::string>& recorded,
                       const MetricBook& book) {
  if (const auto headline = book.headline(experiment)) return *headline;
  if (recorded.empty()) return {"", Better::neither, ""};
  throw ConfigError(
      fmt::format("the runs of {} do not say by which metric they are judged (an earlier attnlab "
                  "made them, or they contradict each other); name one with --metric "
                  "(compare.metric in a suite); they recorded {}",
                  experiment, join({recorded.begin(), recorded.end()}, ", ")));
}

/// @param info  what the runs say; direction neither where they say nothing
void settle_direction(const std::string& experiment, const std::string& better, MetricInfo& info) {
  if (better != "auto") info.better = better == "higher" ? Better::higher : Better::lower;
  if (info.better != Better::neither) return;
  throw ConfigError(
      fmt::format("no run of {} says whether more of '{}' is better; say --better higher or "
                  "--better lower (compare.better in a suite)",
                  experiment, info.name));
}

}  // namespace

std::map<std::string, MetricInfo> chosen_metrics(const std::vector<RunRecord>& runs,
                                                 const MetricBook& book, const std::string& metric,
                                                 const std::string& better) {
  const bool headline = metric.empty() || metric == kHeadline;
  const Recorded recorded = recorded_by(runs);
  if (!headline) refuse_unknown(metric, recorded);
  std::map<std::string, MetricInfo> chosen;
  for (const auto& [experiment, names] : recorded) {
    MetricInfo info =
        headline ? headline_of(experiment, names, book)
                 : book.find(experiment, metric).value_or(MetricInfo{metric, Better::neither, ""});
    if (names.count(info.name) > 0) settle_direction(experiment, better, info);
    chosen[experiment] = std::move(info);
  }
  return chosen;
}

}  // namespace attnlab
