// The page's tables of results.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "framework/base/text.h"
#include "framework/comparison/table.h"
#include "framework/report/html_parts.h"
#include "framework/report/markup.h"
#include "framework/runs/metric_text.h"

namespace attnlab {
namespace {

using Row = std::vector<HtmlCell>;

/// "1,234,567".
std::string grouped(double value) {
  std::string text = decimal(value, 0);
  const std::size_t first = text[0] == '-' ? 1 : 0;
  for (std::size_t at = text.size(); at > first + 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

/// The best mean of each experiment.
std::map<std::string, double> best_means(const Comparison& comparison) {
  std::map<std::string, double> best;
  for (const ComparisonRow& row : comparison.rows) {
    if (row.gap) continue;
    const auto [found, is_new] = best.emplace(row.experiment, row.summary.mean);
    if (is_new) continue;
    const double mean = row.summary.mean;
    found->second = row.metric.better == Better::higher ? std::max(found->second, mean)
                                                        : std::min(found->second, mean);
  }
  return best;
}

HtmlCell gap_cell(const Gap& gap) {
  return {fmt::format("<span class=\"absent\" title=\"{}\">{}</span>", html_text(gap.text()),
                      html_text(std::string(name_of(gap.kind)))),
          "", "number"};
}
HtmlCell no_cell() { return {"<span class=\"absent\">–</span>", "", "number"}; }
HtmlCell cell(const std::string& text, double order, const std::string& style = "number") {
  return {html_text(text), std::isfinite(order) ? shortest(order) : "", style};
}

HtmlCell mean_cell(const ComparisonRow& row, bool best) {
  if (row.gap) return gap_cell(row.gap);
  return cell(summary_text(row.metric, row.summary), row.summary.mean,
              best ? "number best" : "number");
}

HtmlCell verdict_cell(const Comparison& comparison, const ComparisonRow& row) {
  const std::string word = verdict_text(comparison, row);
  const std::string mark = word == "better" ? "▲ " : word == "worse" ? "▼ " : "";
  const std::string style = word == "better" ? "good" : word == "worse" ? "bad" : "";
  const std::string title = row.contrast->gap ? row.contrast->gap.text() : "";
  return {fmt::format("<span title=\"{}\">{}{}</span>", html_text(title), mark, html_text(word)),
          word, style};
}

/// A publication's number, with its own difference to the baseline.
HtmlCell published_cell(const Comparison& comparison, const PublishedNumbers& published,
                        const ComparisonRow& row) {
  const std::string* value = published.find(row.experiment, row.attention);
  if (value == nullptr) return no_cell();
  const std::string difference =
      row.contrast ? published.difference(row.experiment, row.attention, comparison.baseline) : "";
  return cell(difference.empty() ? *value : fmt::format("{} ({})", *value, difference),
              Node::scalar(*value).as_double().value_or(NAN));
}

/// The difference to the baseline, what publications say, p and verdict.
void add_contrast(const Comparison& comparison, const ComparisonRow& row, Row& out) {
  const bool any = row.contrast && row.contrast->difference.count > 0;
  if (any) {
    const Contrast& contrast = *row.contrast;
    const double mean = contrast.difference.mean;
    std::string text = difference_text(row.metric, mean, row.summary.mean, contrast.interval);
    if (contrast.interval) {
      text += " " + interval_text(row.metric, *contrast.interval, row.summary.mean);
    }
    out.push_back(cell(text, mean));
  } else {
    out.push_back(no_cell());
  }
  for (const PublishedNumbers& published : comparison.published) {
    out.push_back(published_cell(comparison, published, row));
  }
  out.push_back(any && row.contrast->test
                    ? cell(p_text(row.contrast->adjusted_p), row.contrast->adjusted_p)
                    : no_cell());
  out.push_back(row.contrast ? verdict_cell(comparison, row)
                             : HtmlCell{"baseline", "baseline", "absent"});
}

/// @param shares  whether an experiment that is shown is judged by a share of its runs
std::vector<HtmlColumn> result_columns(const Comparison& comparison,
                                       const std::vector<MetricInfo>& costs, bool shares) {
  const auto common = common_metric(comparison);
  const std::string spread = fmt::format("mean ± sample standard deviation over seeds{}",
                                         shares ? "; of a share of runs Wilson's interval" : "");
  std::vector<HtmlColumn> columns = {
      {"experiment", "", false},
      {"attention", "", false},
      {"seeds", "seeds that are done, of all", true},
      {common ? metric_heading(*common) : "value", spread, true},
      {"interval",
       fmt::format("of the mean, by Student's distribution{}",
                   shares ? "; of a share of runs, Wilson's" : ""),
       true},
      {common ? difference_heading(*common) : "difference",
       "to the baseline, over pairs of one seed, with its interval", true}};
  for (const PublishedNumbers& published : comparison.published) {
    columns.push_back({published.source, "published, with the difference to the baseline", true});
  }
  columns.push_back({comparison.options.correct == "holm" ? "p (Holm)" : "p", "two-sided", true});
  columns.push_back({"verdict", "at the level " + shortest(comparison.options.level), false});
  for (const std::string& name : comparison.evaluations) {
    columns.push_back({metric_heading(comparison.book.shared(name)),
                       "of an evaluation of the finished runs, mean ± sample standard deviation",
                       true});
  }
  if (!common) columns.insert(columns.begin() + 3, {"metric", "that is compared", false});
  for (const MetricInfo& cost : costs) {
    columns.push_back({metric_heading(cost), "mean over the runs that are done", true});
  }
  return columns;
}

HtmlCell evaluation_cell(const Comparison& comparison, const ComparisonRow& row,
                         const std::string& name) {
  const auto found = row.evaluations.find(name);
  if (found == row.evaluations.end()) return no_cell();
  const Summary& summary = found->second;
  const auto seeds = static_cast<std::int64_t>(row.seeds.size());
  return cell(summary_text(comparison.book.shared(name), summary) +
                  fewer_text(summary.count, seeds, row.summary.count),
              summary.mean);
}

Row result_row(const Comparison& comparison, const ComparisonRow& row, bool best,
               const std::vector<MetricInfo>& costs) {
  const std::string seeds = fmt::format("{} of {}", row.summary.count, row.seeds.size());
  const bool baseline = row.attention == comparison.baseline;
  Row out = {{html_text(row.experiment), row.experiment, ""},
             {html_text(row.attention) + (baseline ? " <small>(baseline)</small>" : ""),
              row.attention, "name"},
             cell(seeds, static_cast<double>(row.summary.count)),
             mean_cell(row, best),
             row.interval ? cell(interval_text(row.metric, *row.interval, row.summary.mean),
                                 row.interval->low)
                          : no_cell()};
  add_contrast(comparison, row, out);
  for (const std::string& name : comparison.evaluations) {
    out.push_back(evaluation_cell(comparison, row, name));
  }
  if (!common_metric(comparison)) {
    const std::string metric = metric_heading(row.metric);
    out.insert(out.begin() + 3, {html_text(metric), metric, ""});
  }
  for (const MetricInfo& cost : costs) {
    const auto found = row.costs.find(cost.name);
    out.push_back(found == row.costs.end() ? no_cell()
                                           : cell(cost_text(cost, found->second), found->second));
  }
  return out;
}

constexpr const char* kOverRuns = ", mean ± sample standard deviation over the runs that are done";

/// Names of the final metrics of single classes, or of all others.
std::set<std::string> final_metrics(const Report& report, bool of_classes) {
  std::set<std::string> names;
  for (const PooledCell& cell : report.cells) {
    for (const auto& [name, summary] : cell.metrics) {
      if (report.info(name).of_class.empty() != of_classes) names.insert(name);
    }
  }
  return names;
}

HtmlCell pooled_cell(const Report& report, const PooledCell& one, const std::string& name) {
  const auto found = one.metrics.find(name);
  if (found == one.metrics.end()) return no_cell();
  return cell(summary_text(report.info(name), found->second), found->second.mean);
}

/// "ap50" of "ap50_shirt", as its own heading has it.
std::string stem_of(const MetricInfo& info) {
  const std::string end = "_" + info.of_class;
  return info.name.ends_with(end) ? info.name.substr(0, info.name.size() - end.size()) : info.name;
}

/// A row a class, a column an attention; empty where the slice has none of these metrics.
std::string class_table(const Report& report, std::size_t slice, const std::string& stem,
                        const std::vector<std::string>& names, const std::string& id) {
  std::vector<const PooledCell*> cells;
  std::vector<HtmlColumn> columns = {{"class", "", false}};
  for (const PooledCell& one : report.cells) {
    const bool any = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return one.metrics.count(name) > 0;
    });
    if (one.slice != slice || !any) continue;
    cells.push_back(&one);
    columns.push_back({one.attention, "", true});
  }
  if (cells.empty()) return "";
  std::vector<Row> rows;
  for (const std::string& name : names) {
    const bool here = std::any_of(cells.begin(), cells.end(), [&](const PooledCell* one) {
      return one->metrics.count(name) > 0;
    });
    if (!here) continue;
    const std::string of_class = report.info(name).of_class;
    Row row = {{html_text(of_class), of_class, "name"}};
    for (const PooledCell* one : cells) row.push_back(pooled_cell(report, *one, name));
    rows.push_back(std::move(row));
  }
  MetricInfo heading = report.info(names.front());
  heading.name = stem;
  return html_table(fmt::format("{}: {} of each class{}", report.slices.all[slice].name,
                                metric_heading(heading), kOverRuns),
                    columns, rows, id);
}

}  // namespace

std::string cost_text(const MetricInfo& cost, double value) {
  const double shown = metric_scale(cost) * value;
  const double size = std::abs(shown);
  if (size >= 100 || shown == std::floor(shown)) return grouped(shown);
  return decimal(shown, size < 1 ? 4 : 2);
}

std::string results_html(const Report& report) {
  const Comparison& comparison = report.comparison;
  const std::vector<MetricInfo> costs = recorded_costs(comparison);
  const std::map<std::string, double> best = best_means(comparison);
  std::vector<Row> rows;
  bool shares = false;
  for (const ComparisonRow& row : comparison.rows) {
    if (!report.shows(row.experiment)) continue;
    shares |= is_share_of_runs(row.metric);
    const auto found = best.find(row.experiment);
    const bool is_best = found != best.end() && !row.gap && found->second == row.summary.mean;
    rows.push_back(result_row(comparison, row, is_best, costs));
  }
  if (rows.empty()) return "";
  return html_table(metric_phrase(comparison) + ", by experiment and attention",
                    result_columns(comparison, costs, shares), rows, "results-table");
}

std::string metrics_html(const Report& report) {
  const std::set<std::string> names = final_metrics(report, /*of_classes=*/false);
  if (names.empty()) return "";
  std::vector<HtmlColumn> columns = {{"experiment", "", false}, {"attention", "", false}};
  const std::vector<std::string> order = report.comparison.book.in_order(names);
  for (const std::string& name : order) {
    columns.push_back({metric_heading(report.info(name)), "", true});
  }
  std::vector<Row> rows;
  for (const PooledCell& one : report.cells) {
    const std::string& slice = report.slices.all[one.slice].name;
    Row row = {{html_text(slice), slice, ""}, {html_text(one.attention), one.attention, "name"}};
    for (const std::string& name : order) row.push_back(pooled_cell(report, one, name));
    rows.push_back(std::move(row));
  }
  const bool all = final_metrics(report, /*of_classes=*/true).empty();
  return html_table(
      std::string("All final metrics") + (all ? "" : " but those of single classes") + kOverRuns,
      columns, rows, "metrics-table");
}

std::string classes_html(const Report& report) {
  // "ap50": "ap50_shirt", ...; in the order in which runs recorded them
  std::vector<std::pair<std::string, std::vector<std::string>>> by_stem;
  for (const std::string& name :
       report.comparison.book.in_order(final_metrics(report, /*of_classes=*/true))) {
    const std::string stem = stem_of(report.info(name));
    const auto found = std::find_if(by_stem.begin(), by_stem.end(),
                                    [&](const auto& one) { return one.first == stem; });
    if (found == by_stem.end()) {
      by_stem.push_back({stem, {name}});
    } else {
      found->second.push_back(name);
    }
  }
  std::string out;
  int tables = 0;
  for (std::size_t slice = 0; slice < report.slices.all.size(); ++slice) {
    for (const auto& [stem, names] : by_stem) {
      out += class_table(report, slice, stem, names, fmt::format("classes-{}", ++tables));
    }
  }
  return out;
}

}  // namespace attnlab
