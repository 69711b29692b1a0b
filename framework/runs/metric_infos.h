// What runs recorded about their metrics: environment.json has
//
//   "metrics": [{"name": "accuracy", "better": "higher", "unit": "share"}, ...,
//               {"name": "ap50_shirt", "better": "higher", "unit": "share", "class": "shirt"}]
//   "costs": ["parameters", ...]
//
// The task's metrics come first, its headline before all others, then the host's own.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "framework/base/metric.h"

namespace attnlab {

/// The host's own metrics of a run.
/// @param counted  what throughput counts, as plural: "examples", "tokens"
std::vector<MetricInfo> host_metrics(const std::string& counted = "examples");

/// Writes the members "metrics" and "costs" of a run's environment.
/// @param task  the task's own, its headline first
void add_metrics(const std::vector<MetricInfo>& task, const std::string& counted,
                 nlohmann::json& environment);

/// "higher", "lower", "neither".
std::string_view name_of(Better better);
nlohmann::json metric_infos_json(const std::vector<MetricInfo>& infos);
/// @throws DataError for another form than `metric_infos_json` writes.
std::vector<MetricInfo> read_metric_infos(const nlohmann::json& list);

/// What is known about a metric, under the name that was asked for. An evaluation writes its own
/// name before those of its metrics, so that "fog/accuracy" falls back to "accuracy".
std::optional<MetricInfo> find_metric(const std::vector<MetricInfo>& infos,
                                      const std::string& name);
/// The same; a plain number without direction where nothing is known.
MetricInfo metric_or_plain(const std::vector<MetricInfo>& infos, const std::string& name);

/// Names of metrics, for messages.
std::vector<std::string> names_of(const std::vector<MetricInfo>& infos);

/// What the runs of several experiments say about their metrics. Where the runs of one experiment
/// contradict each other, nothing is known.
class MetricBook {
 public:
  /// @param infos  of one run; empty for a run of an earlier attnlab
  void add(const std::string& experiment, const std::vector<MetricInfo>& infos);

  /// The metric that an experiment is judged by.
  std::optional<MetricInfo> headline(const std::string& experiment) const;
  std::optional<MetricInfo> find(const std::string& experiment, const std::string& name) const;
  /// What all experiments that know the metric say; a plain number where they differ or none does.
  MetricInfo shared(const std::string& name) const;
  /// The names in the order in which runs recorded them; those that none did follow by name.
  std::vector<std::string> in_order(const std::set<std::string>& names) const;

 private:
  struct Entry {
    std::vector<MetricInfo> infos;
    std::set<std::string> contested;
    std::optional<std::string> headline;  ///< empty: none, or several
    bool any = false;
  };
  std::map<std::string, Entry> entries_;
};

}  // namespace attnlab
