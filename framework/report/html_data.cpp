// What the page's charts draw: indices instead of names, and each list of steps
// once.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "framework/base/json.h"
#include "framework/comparison/quantities.h"
#include "framework/document/markup.h"
#include "framework/report/html_parts.h"
#include "framework/runs/metric_infos.h"
#include "framework/runs/metric_text.h"

namespace attnlab {
namespace {

using nlohmann::json;

/// Five digits are more than a chart shows, and a third of the bytes.
double rounded(double value, const char* format = "%.5g") {
  char text[48];
  std::snprintf(text, sizeof text, format, value);
  return std::strtod(text, nullptr);
}

json rounded(const std::vector<double>& values, const char* format = "%.5g") {
  json out = json::array();
  for (const double value : values) out.push_back(rounded(value, format));
  return out;
}

class ChartData {
 public:
  explicit ChartData(const Report& report) : report_(report) {
    for (const Slice& slice : report.slices.all) names_.push_back(slice.name);
    number(names_, experiments_);
    number(report.comparison.attentions, attentions_);
  }

  json make() {
    json out = {{"metric_of", json::array()},  {"baseline", report_.comparison.baseline},
                {"experiments", names_},       {"attentions", report_.comparison.attentions},
                {"curves", json::array()},     {"biases", json::array()},
                {"costs", json::array()},      {"points", points()},
                {"grids", json::array()},      {"cells", json::array()},
                {"histograms", json::array()}, {"ladders", json::array()}};
    for (const Curve& curve : report_.curves) out["curves"].push_back(curve_json(curve));
    for (const BiasFigure& bias : report_.biases) out["biases"].push_back(bias_json(bias));
    for (const Grid& grid : report_.slices.grids) out["grids"].push_back(grid_json(grid));
    for (const PooledCell& cell : report_.cells) {
      if (report_.slices.all[cell.slice].points > 0) out["cells"].push_back(cell_json(cell));
    }
    for (const Histogram& one : report_.histograms) out["histograms"].push_back(bins_json(one));
    for (const Ladder& ladder : report_.ladders) out["ladders"].push_back(ladder_json(ladder));
    for (const std::string& name : costs_) {
      const MetricInfo cost = report_.info(name);
      out["costs"].push_back({{"name", cost.name},
                              {"heading", metric_heading(cost)},
                              {"better", name_of(cost.better)},
                              {"scale", metric_scale(cost)}});
    }
    for (const Slice& slice : report_.slices.all) {
      out["metric_of"].push_back(report_.metric_of(slice).name);
    }
    out["steps"] = std::move(steps_);
    out["metrics"] = metrics_;
    return out;
  }

 private:
  using Numbers = std::map<std::string, std::size_t>;

  static void number(const std::vector<std::string>& names, Numbers& out) {
    for (const std::string& name : names) out.emplace(name, out.size());
  }

  json curve_json(const Curve& curve) {
    json steps = rounded(curve.steps, "%.8g");
    const auto [found, is_new] = step_lists_.emplace(steps.dump(), steps_.size());
    if (is_new) steps_.push_back(std::move(steps));
    add_metric(curve.metric);
    json out = {{"e", experiments_.at(curve.experiment)},
                {"a", attentions_.at(curve.attention)},
                {"split", curve.split},
                {"metric", curve.metric},
                {"x", found->second},
                {"y", rounded(curve.mean)}};
    if (!curve.layer.empty()) out["layer"] = curve.layer;
    std::int64_t most = 0;
    for (const std::int64_t seeds : curve.seeds) most = std::max(most, seeds);
    out["n"] = most;
    if (most > 1) out["sd"] = rounded(curve.deviation, "%.3g");
    return out;
  }

  json bias_json(const BiasFigure& bias) const {
    json heads = json::array();
    for (const std::vector<double>& head : bias.heads) {
      json& row = heads.emplace_back(json::array());
      for (const double value : head) {
        row.push_back(finite_or_null(rounded(value)));
      }
    }
    return {{"e", experiments_.at(bias.experiment)},
            {"a", attentions_.at(bias.attention)},
            {"seed", bias.seed},
            {"step", bias.step},
            {"layer", bias.layer},
            {"first", bias.first},
            {"heads", std::move(heads)}};
  }

  void add_metric(const std::string& name) {
    const MetricInfo metric = report_.info(name);
    metrics_[name] = {{"heading", metric_heading(metric)},
                      {"scale", metric_scale(metric)},
                      {"share", is_share_of_runs(metric)}};
  }

  json points() {
    json out = json::array();
    for (const PooledCell& cell : report_.cells) {
      const std::string& metric = report_.metric_of(report_.slices.all[cell.slice]).name;
      add_metric(metric);
      const auto summary = cell.metrics.find(metric);
      if (summary == cell.metrics.end() || cell.costs.empty()) continue;
      json costs = json::object();
      for (const auto& [name, value] : cell.costs) {
        if (name == metric) continue;
        costs[name] = rounded(value, "%.7g");
        costs_.insert(name);
      }
      out.push_back({{"e", cell.slice},
                     {"a", attentions_.at(cell.attention)},
                     {"y", rounded(summary->second.mean)},
                     {"sd", rounded(summary->second.deviation)},
                     {"n", summary->second.count},
                     {"costs", costs}});
    }
    return out;
  }

  std::size_t place(const Slice& slice) const {
    return static_cast<std::size_t>(&slice - report_.slices.all.data());
  }

  /// What a grid varies, with the slice of each value; "metrics" begins with
  /// what its tables show.
  json grid_json(const Grid& grid) const {
    json axes = json::array();
    for (const auto& [axis, values] : grid.axes) {
      if (std::count(grid.pool.begin(), grid.pool.end(), axis) == 0) continue;
      json slices = json::array();
      for (const std::string& value : values) {
        slices.push_back(place(*report_.slices.of_grid(grid.base, axis, value)));
      }
      axes.push_back({{"axis", axis}, {"values", values}, {"slices", std::move(slices)}});
    }
    return {{"base", grid.base},
            {"all", place(*report_.slices.of_grid(grid.base))},
            {"axes", std::move(axes)},
            {"metrics", pool_metrics(report_.cells, report_.comparison.book,
                                     report_.metric_of(*report_.slices.of_grid(grid.base)).name)}};
  }

  /// Each metric as mean, both ends of its interval, and how many runs it is
  /// of.
  json cell_json(const PooledCell& cell) {
    json metrics = json::object();
    for (const auto& [name, summary] : cell.metrics) {
      add_metric(name);
      const Interval interval =
          interval_of(report_.info(name), summary).value_or(Interval{summary.mean, summary.mean});
      metrics[name] = {rounded(summary.mean), rounded(interval.low), rounded(interval.high),
                       summary.count};
    }
    return {
        {"e", cell.slice}, {"a", attentions_.at(cell.attention)}, {"metrics", std::move(metrics)}};
  }

  json ladder_json(const Ladder& ladder) const {
    MetricInfo metric = report_.info(ladder.rungs.front().name);
    metric.name = ladder.metric;
    json rungs = json::array();
    for (const Ladder::Rung& rung : ladder.rungs) {
      rungs.push_back({rounded(rung.at, "%.8g"), rounded(rung.value.mean),
                       rounded(rung.value.deviation, "%.3g"), rung.value.count});
    }
    return {{"e", ladder.slice},
            {"a", attentions_.at(ladder.attention)},
            {"over", ladder.over},
            {"heading", metric_heading(metric)},
            {"scale", metric_scale(metric)},
            {"rungs", std::move(rungs)}};
  }

  json bins_json(const Histogram& one) {
    add_metric(one.metric);
    return {{"e", one.slice},
            {"a", attentions_.at(one.attention)},
            {"metric", one.metric},
            {"low", rounded(one.low, "%.8g")},
            {"high", rounded(one.high, "%.8g")},
            {"counts", one.counts}};
  }

  const Report& report_;
  std::vector<std::string> names_;  // of slices
  Numbers experiments_, attentions_;
  std::map<std::string, std::size_t> step_lists_;
  std::set<std::string> costs_;
  json steps_ = json::array(), metrics_ = json::object();
};

}  // namespace

std::string chart_data(const Report& report) { return script_json(ChartData(report).make()); }

}  // namespace attnlab
