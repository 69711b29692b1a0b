// The report for programs (CSV, JSON) and for notes (Markdown).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/comparison/quantities.h"
#include "framework/document/markup.h"
#include "framework/document/text.h"
#include "framework/report/pool_tables.h"
#include "framework/report/report.h"
#include "framework/runs/metric_infos.h"

namespace attnlab {
namespace {

using nlohmann::json;

/// Metrics and costs of one run; a cost that is a metric too is one column.
std::map<std::string, double> numbers_of(const RunRecord& run) {
  std::map<std::string, double> numbers = run.costs;
  for (const auto& [name, value] : run.status.metrics) numbers[name] = value;
  return numbers;
}

/// Of all numbers of all runs, in the order in which runs recorded them.
std::vector<std::string> recorded_names(const Report& report) {
  std::set<std::string> names;
  for (const RunRecord& run : report.collection.runs) {
    for (const auto& [name, value] : numbers_of(run)) names.insert(name);
  }
  return report.comparison.book.in_order(names);
}

/// A word where a program could take an infinity for a number.
std::string number_text(double value) {
  return std::isfinite(value) ? shortest(value) : std::string(name_of(Absence::not_finite));
}

/// What the grids vary, each axis once.
std::vector<std::string> axes_of(const Slices& slices) {
  std::set<std::string> axes;
  for (const Grid& grid : slices.grids) {
    for (const auto& [axis, values] : grid.axes) axes.insert(axis);
  }
  return {axes.begin(), axes.end()};
}

/// A run's value of an axis; empty where it has none.
std::string value_at(const Slices& slices, const RunRecord& run, const std::string& axis) {
  const auto point = slices.points.find(run.experiment);
  if (point == slices.points.end()) return "";
  for (const auto& [word, value] : point->second.values) {
    if (word == axis) return value;
  }
  return "";
}

json slice_json(const Slice& slice) {
  json out = {{"name", slice.name}, {"experiment", slice.base}, {"runs", slice.runs.size()}};
  if (slice.points > 0) out["points"] = slice.points;
  if (!slice.axis.empty()) {
    out["axis"] = slice.axis;
    out["value"] = slice.value;
  }
  return out;
}

json cell_json(const Report& report, const PooledCell& cell) {
  json metrics = json::object();
  for (const auto& [name, summary] : cell.metrics) {
    metrics[name] = {
        {"mean", summary.mean}, {"sd", finite_or_null(summary.sd())}, {"n", summary.count}};
    const auto interval = interval_of(report.info(name), summary);
    if (interval) metrics[name]["interval"] = {interval->low, interval->high};
  }
  return {{"experiment", report.slices.all[cell.slice].name},
          {"attention", cell.attention},
          {"runs", cell.runs},
          {"done", cell.done},
          {"not_finite", cell.not_finite},
          {"metrics", std::move(metrics)}};
}

json histogram_json(const Report& report, const Histogram& one) {
  return {{"experiment", report.slices.all[one.slice].name},
          {"attention", one.attention},
          {"metric", one.metric},
          {"low", one.low},
          {"high", one.high},
          {"counts", one.counts}};
}

json run_json(const RunRecord& run) {
  json metrics = json::object();
  for (const auto& [name, value] : run.status.metrics) {
    metrics[name] = finite_or_null(value);
  }
  json out = {{"experiment", run.experiment},
              {"attention", run.attention},
              {"seed", run.seed},
              {"folder", run.folder},
              {"state", name_of(run.status.state)},
              {"step", run.status.step},
              {"steps", run.status.steps},
              {"epoch", run.status.epoch},
              {"seconds", run.status.seconds},
              {"metrics", std::move(metrics)},
              {"costs", run.costs},
              {"environment", run.environment},
              {"config", to_yaml(run.config.tree())}};
  if (!run.status.reason.empty()) out["reason"] = run.status.reason;
  if (run.together > 1) out["together"] = run.together;
  if (!run.not_finite().empty()) out["not_finite"] = run.not_finite();
  for (const EvaluationRecord& one : run.evaluations) {
    out["evaluations"].push_back({{"entry", one.entry},
                                  {"hash", one.hash},
                                  {"split", one.split},
                                  {"state", one.done ? "done" : "failed"},
                                  {"reason", one.reason},
                                  {"set", json::parse(one.set)},
                                  {"seconds", one.seconds}});
    if (!one.weights.empty()) out["evaluations"].back()["weights"] = one.weights;
  }
  return out;
}

json curve_json(const Curve& curve) {
  json sd = json::array();  // one seed has none
  for (std::size_t i = 0; i < curve.deviation.size(); ++i) {
    sd.push_back(curve.seeds[i] > 1 ? json(curve.deviation[i]) : json(nullptr));
  }
  json out = {{"experiment", curve.experiment},
              {"attention", curve.attention},
              {"split", curve.split},
              {"metric", curve.metric},
              {"steps", curve.steps},
              {"mean", curve.mean},
              {"sd", sd},
              {"seeds", curve.seeds}};
  if (!curve.layer.empty()) out["layer"] = curve.layer;
  return out;
}

json bias_json(const BiasFigure& bias) {
  json heads = json::array();
  for (const std::vector<double>& head : bias.heads) {
    json& row = heads.emplace_back(json::array());
    for (const double value : head) row.push_back(finite_or_null(value));
  }
  return {{"experiment", bias.experiment},
          {"attention", bias.attention},
          {"seed", bias.seed},
          {"step", bias.step},
          {"layer", bias.layer},
          {"first", bias.first},
          {"heads", std::move(heads)}};
}

/// The tables of pooled runs.
void write_grids(const Report& report, Document& out) {
  for (const Grid& grid : report.slices.grids) {
    for (const PoolTable& pool : pool_tables(report, grid)) {
      Table table = table_of(report, pool);
      out.heading(std::exchange(table.caption, ""));
      out.table(table);
    }
  }
  if (!report.slices.grids.empty()) out.paragraph(pool_note(report));
}

json environment_json(const Report& report) {
  json out = json::object();
  for (const Fact& fact : report.environment) {
    json values = json::array();
    for (const auto& [value, runs] : fact.values) {
      values.push_back({{"value", value}, {"runs", runs}});
    }
    out[fact.key] = std::move(values);
  }
  return out;
}

void write_unfinished(const Report& report, Document& out) {
  if (report.unfinished.empty()) return;
  out.heading("Runs without a value");
  const std::size_t shown = std::min(report.unfinished.size(), kMostUnfinished);
  for (std::size_t i = 0; i < shown; ++i) {
    const UnfinishedRun& one = report.unfinished[i];
    const RunRecord& run = report.run(one);
    const std::string& reason = run.status.reason;
    out.list({fmt::format("**{}**: {}/{} seed {}{}", name_of(run.status.state), run.experiment,
                          run.attention, run.seed, reason.empty() ? "" : ": " + reason)});
    if (!one.log.empty()) out.code(one.log);
  }
  const std::size_t more = report.unfinished.size() - shown;
  if (more > 0) out.paragraph(fmt::format("And {} more: attnlab status has them all.", more));
}

}  // namespace

std::string report_markdown(const Report& report) {
  TextDocument out(TableStyle::markdown);
  out.title(report.title);
  bool joined = false;
  for (const std::string& sentence : finding_of(report)) {
    out.paragraph(sentence, std::exchange(joined, true));
  }
  write_grids(report, out);
  const bool any = std::any_of(report.comparison.rows.begin(), report.comparison.rows.end(),
                               [&](const auto& row) { return report.shows(row.experiment); });
  if (any) {
    out.heading(comparison_title(report.comparison));
    write_comparison(report.comparison, out);
  }
  write_unfinished(report, out);
  if (!report.citations.empty()) out.heading("Citations");
  out.list(citation_lines(report));
  out.paragraph(report.date + ", by");
  out.code(report.command);
  return out.take();
}

std::string report_csv(const Report& report) {
  const std::vector<std::string> names = recorded_names(report);
  std::vector<std::string> header = {"experiment", "attention", "seed",    "state",  "reason",
                                     "step",       "steps",     "seconds", "folder", "together"};
  const std::vector<std::string> axes = axes_of(report.slices);
  for (const std::string& axis : axes) header.push_back("grid." + axis);
  header.insert(header.end(), names.begin(), names.end());
  std::string out = csv_record(header);
  for (const RunRecord& run : report.collection.runs) {
    std::vector<std::string> record = {run.experiment,
                                       run.attention,
                                       std::to_string(run.seed),
                                       std::string(name_of(run.status.state)),
                                       run.status.reason,
                                       std::to_string(run.status.step),
                                       std::to_string(run.status.steps),
                                       shortest(run.status.seconds),
                                       run.folder,
                                       std::to_string(run.together)};
    for (const std::string& axis : axes) record.push_back(value_at(report.slices, run, axis));
    const std::map<std::string, double> numbers = numbers_of(run);
    for (const std::string& name : names) {
      const auto found = numbers.find(name);
      record.push_back(found == numbers.end() ? "" : number_text(found->second));
    }
    out += csv_record(record);
  }
  return out;
}

std::string report_table(const Report& report) {
  const Comparison& comparison = report.comparison;
  std::vector<std::string> header = {"experiment",
                                     "attention",
                                     "metric",
                                     "better",
                                     "unit",
                                     "values",
                                     "mean",
                                     "sd",
                                     "low",
                                     "high",
                                     "absent",
                                     "pairs",
                                     "difference",
                                     "difference_low",
                                     "difference_high",
                                     "p",
                                     "adjusted_p",
                                     "verdict"};
  header.insert(header.end(), comparison.evaluations.begin(), comparison.evaluations.end());
  std::string out = csv_record(header);
  for (const ComparisonRow& row : comparison.rows) {
    std::vector<std::string> record = {row.experiment,  row.attention,
                                       row.metric.name, std::string(name_of(row.metric.better)),
                                       row.metric.unit, std::to_string(row.summary.count)};
    const auto add = [&](bool there, double value) {
      record.push_back(there && !std::isnan(value) ? number_text(value) : "");
    };
    const auto add_interval = [&](const std::optional<Interval>& interval) {
      add(interval.has_value(), interval ? interval->low : 0);
      add(interval.has_value(), interval ? interval->high : 0);
    };
    add(!row.gap, row.summary.mean);
    add(!row.gap, row.summary.sd());
    add_interval(row.interval);
    record.emplace_back(row.gap ? name_of(row.gap.kind) : "");
    const Contrast none{};
    const Contrast& contrast = row.contrast ? *row.contrast : none;
    record.push_back(row.contrast ? std::to_string(contrast.difference.count) : "");
    add(contrast.difference.count > 0, contrast.difference.mean);
    add_interval(contrast.interval);
    add(contrast.test.has_value(), contrast.test ? contrast.test->p_value : 0);
    add(contrast.test.has_value(), contrast.adjusted_p);
    record.push_back(row.contrast ? verdict_text(comparison, row) : "");
    for (const std::string& name : comparison.evaluations) {
      const auto found = row.evaluations.find(name);
      const bool there = found != row.evaluations.end() && found->second.count > 0;
      add(there, there ? found->second.mean : 0);
    }
    out += csv_record(record);
  }
  return out;
}

std::string report_json(const Report& report) {
  json out = {{"schema", 1},
              {"attnlab", ATTNLAB_VERSION},
              {"title", report.title},
              {"date", report.date},
              {"command", report.command},
              {"finding", finding_of(report)},
              {"comparison", json::parse(comparison_json(report.comparison))},
              {"slices", json::array()},
              {"pooled", json::array()},
              {"histograms", json::array()},
              {"runs", json::array()},
              {"curves", json::array()},
              {"biases", json::array()},
              {"environment", environment_json(report)},
              {"plugins", json::array()},
              {"citations", json::array()},
              {"absent", json::array()},
              {"notes", report.collection.notes},
              {"metrics", json::object()}};
  for (const std::string& name : recorded_names(report)) {
    const MetricInfo info = report.info(name);
    out["metrics"][name] = {{"better", name_of(info.better)}, {"unit", info.unit}};
  }
  for (const Slice& one : report.slices.all) out["slices"].push_back(slice_json(one));
  for (const PooledCell& one : report.cells) out["pooled"].push_back(cell_json(report, one));
  for (const Histogram& one : report.histograms) {
    out["histograms"].push_back(histogram_json(report, one));
  }
  for (const RunRecord& run : report.collection.runs) out["runs"].push_back(run_json(run));
  for (const UnfinishedRun& one : report.unfinished) out["runs"][one.run]["log"] = one.log;
  for (const Curve& curve : report.curves) out["curves"].push_back(curve_json(curve));
  for (const BiasFigure& bias : report.biases) out["biases"].push_back(bias_json(bias));
  for (const PluginUse& plugin : report.plugins) {
    out["plugins"].push_back(
        {{"kind", plugin.kind}, {"id", plugin.id}, {"hash", plugin.hash}, {"runs", plugin.runs}});
  }
  for (const AbsentCell& cell : report.collection.absent) {
    out["absent"].push_back({{"experiment", cell.experiment},
                             {"attention", cell.attention},
                             {"seed", cell.seed},
                             {"kind", name_of(cell.gap.kind)},
                             {"reason", cell.gap.reason}});
  }
  for (const Citation& one : report.citations) {
    out["citations"].push_back({{"key", one.key}, {"text", one.text}, {"plugins", one.plugins}});
  }
  return json_text(out);
}

}  // namespace attnlab
