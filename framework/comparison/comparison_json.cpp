// How programs read a comparison.

#include "framework/base/json.h"
#include "framework/comparison/comparison.h"
#include "framework/runs/metric_infos.h"

namespace attnlab {
namespace {

using nlohmann::json;

json interval_json(const std::optional<Interval>& interval) {
  return interval ? json::array({interval->low, interval->high}) : json(nullptr);
}

json optional_json(const std::optional<double>& value) {
  return value ? json(*value) : json(nullptr);
}

json gap_json(const Gap& gap) {
  json out = {{"kind", name_of(gap.kind)}};
  if (!gap.reason.empty()) out["reason"] = gap.reason;
  return out;
}

json contrast_json(const Comparison& comparison, const ComparisonRow& row) {
  const Contrast& contrast = *row.contrast;
  json out = {{"pairs", contrast.difference.count}, {"verdict", verdict_text(comparison, row)}};
  if (contrast.gap) out["absent"] = gap_json(contrast.gap);
  if (contrast.difference.count > 0) out["difference"] = contrast.difference.mean;
  out["interval"] = interval_json(contrast.interval);
  out["cohen_dz"] = optional_json(contrast.dz);
  out["rank_biserial"] = optional_json(contrast.rank_biserial);
  if (!contrast.test) return out;
  out["statistic"] = contrast.test->statistic;
  out["p"] = contrast.test->p_value;
  out["exact"] = contrast.test->exact;
  out["adjusted_p"] = contrast.adjusted_p;
  out["significant"] = contrast.significant;
  return out;
}

json row_json(const Comparison& comparison, const ComparisonRow& row) {
  json out = {{"experiment", row.experiment},
              {"attention", row.attention},
              {"metric", row.metric.name},
              {"better", name_of(row.metric.better)},
              {"unit", row.metric.unit},
              {"n", row.summary.count},
              {"costs", row.costs}};
  for (const auto& [name, summary] : row.evaluations) {
    out["evaluations"][name] = {
        {"mean", summary.mean}, {"sd", finite_or_null(summary.sd())}, {"n", summary.count}};
  }
  if (row.gap) {
    out["absent"] = gap_json(row.gap);
  } else {
    out["mean"] = row.summary.mean;
    out["sd"] = finite_or_null(row.summary.sd());
    out["interval"] = interval_json(row.interval);
  }
  for (const SeedValue& seed : row.seeds) {
    json entry = {{"seed", seed.seed}};
    if (seed.value) entry["value"] = *seed.value;
    if (seed.gap) entry["absent"] = gap_json(seed.gap);
    out["seeds"].push_back(std::move(entry));
  }
  for (const PublishedNumbers& published : comparison.published) {
    const std::string* text = published.find(row.experiment, row.attention);
    const auto value = text == nullptr ? std::nullopt : Node::scalar(*text).as_double();
    if (value) out["published"][published.source] = *value;
  }
  if (row.contrast) out["against_baseline"] = contrast_json(comparison, row);
  return out;
}

json ranking_json(const Comparison& comparison) {
  if (!comparison.ranking) return {{"absent", comparison.no_ranking}};
  const Ranking& ranking = *comparison.ranking;
  const FriedmanResult& test = ranking.test;
  json out = {{"attentions", ranking.attentions},
              {"experiments", ranking.experiments},
              {"mean_ranks", test.mean_ranks},
              {"chi_squared", test.chi_squared},
              {"chi_squared_p", test.chi_squared_p},
              {"f", finite_or_null(test.f)},
              {"f_p", test.f_p},
              {"exact_p", optional_json(test.exact_p)},
              {"critical_difference", ranking.critical_difference}};
  const RankGroups groups = rank_groups(test.mean_ranks, ranking.critical_difference);
  out["not_told_apart"] = json::array();
  for (const auto& [first, last] : groups.groups) {
    json members = json::array();
    for (std::size_t i = first; i <= last; ++i) {
      members.push_back(ranking.attentions[groups.order[i]]);
    }
    out["not_told_apart"].push_back(std::move(members));
  }
  return out;
}

json differences_json(const std::vector<ConfigDifference>& differences) {
  json list = json::array();
  for (const ConfigDifference& one : differences) {
    json values = json::array();
    for (const auto& [value, runs] : one.values) values.push_back({{"value", value}, {"in", runs}});
    list.push_back({{"experiment", one.experiment}, {"key", one.key}, {"values", values}});
  }
  return list;
}

json example_test_json(const ExampleTest& test) {
  json out = {{"experiment", test.experiment},
              {"attention", test.attention},
              {"metric", test.metric.name},
              {"seeds", test.seeds},
              {"examples", test.examples},
              {"baseline", test.baseline},
              {"value", test.value},
              {"difference", test.difference.mean},
              {"interval", interval_json(test.difference.interval)},
              {"test", test.mcnemar ? "mcnemar" : "bootstrap"},
              {"p", test.p_value},
              {"adjusted_p", test.adjusted_p},
              {"significant", test.significant},
              {"verdict", verdict_text(test)}};
  if (test.mcnemar) {
    out["alone_right"] = test.mcnemar->attention;
    out["alone_wrong"] = test.mcnemar->baseline;
  }
  return out;
}

}  // namespace

std::string comparison_json(const Comparison& comparison) {
  const CompareOptions& options = comparison.options;
  json out = {{"metric", comparison.metric},
              {"metrics", json::object()},
              {"baseline", comparison.baseline},
              {"test", options.test},
              {"pair", options.pair},
              {"correct", options.correct},
              {"level", options.level},
              {"tests", comparison.tests},
              {"rows", json::array()},
              {"ranking", ranking_json(comparison)},
              {"left_out_of_ranking", comparison.left_out},
              {"fair", comparison.differences.empty()},
              {"runs", comparison.runs},
              {"differences", differences_json(comparison.differences)},
              {"matched", differences_json(comparison.matched)},
              {"notes", comparison.notes}};
  for (const auto& [experiment, metric] : comparison.metrics) {
    out["metrics"][experiment] = {
        {"name", metric.name}, {"better", name_of(metric.better)}, {"unit", metric.unit}};
  }
  for (const ExampleTest& one : comparison.by_example) {
    out["by_example"].push_back(example_test_json(one));
  }
  for (const TunedAttention& one : comparison.tuned) out["tuned"].push_back(tuned_json(one));
  // The direction of all, where there is one.
  if (const auto common = common_metric(comparison)) out["better"] = name_of(common->better);
  for (const ComparisonRow& row : comparison.rows) out["rows"].push_back(row_json(comparison, row));
  return json_text(out);
}

}  // namespace attnlab
