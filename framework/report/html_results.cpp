// The page's tables of results.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "framework/comparison/quantities.h"
#include "framework/document/html.h"
#include "framework/report/html_parts.h"

namespace attnlab {
namespace {

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

TableCell pooled_cell(const Report& report, const PooledCell& one, const std::string& name) {
  const auto found = one.metrics.find(name);
  if (found == one.metrics.end()) return {};
  return quantity_of(report.info(name), found->second);
}

/// "ap50" of "ap50_shirt", as its own heading has it.
std::string stem_of(const MetricInfo& info) {
  const std::string end = "_" + info.of_class;
  return info.name.ends_with(end) ? info.name.substr(0, info.name.size() - end.size()) : info.name;
}

/// A row per class, a column per attention; nothing where the slice has none of these metrics.
void write_classes(const Report& report, std::size_t slice, const std::string& stem,
                   const std::vector<std::string>& names, int& tables, HtmlDocument& out) {
  std::vector<const PooledCell*> cells;
  Table table{"", {"class"}, {}, fmt::format("classes-{}", ++tables)};
  for (const PooledCell& one : report.cells) {
    const bool any = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return one.metrics.count(name) > 0;
    });
    if (one.slice != slice || !any) continue;
    cells.push_back(&one);
    table.columns.emplace_back(one.attention, /*number=*/true);
  }
  if (cells.empty()) return;
  for (const std::string& name : names) {
    const bool here = std::any_of(cells.begin(), cells.end(), [&](const PooledCell* one) {
      return one->metrics.count(name) > 0;
    });
    if (!here) continue;
    std::vector<TableCell>& row = table.rows.emplace_back(1, report.info(name).of_class);
    for (const PooledCell* one : cells) row.push_back(pooled_cell(report, *one, name));
  }
  MetricInfo heading = report.info(names.front());
  heading.name = stem;
  table.caption = fmt::format("{}: {} of each class{}", report.slices.all[slice].name,
                              metric_heading(heading), kOverRuns);
  out.table(table);
}

}  // namespace

std::string results_html(const Report& report) {
  const Comparison& comparison = report.comparison;
  const auto shows = [&](const std::string& experiment) { return report.shows(experiment); };
  const auto any = [&](const ComparisonRow& row) { return shows(row.experiment); };
  if (std::none_of(comparison.rows.begin(), comparison.rows.end(), any)) return "";
  HtmlDocument out;
  write_values(comparison, shows,
               {.caption = metric_phrase(comparison) + ", by experiment and attention",
                .id = "results-table"},
               out);
  write_contrasts(comparison, shows,
                  {.caption = "Differences to " + comparison.baseline, .id = "contrasts-table"},
                  out);
  write_example_tests(comparison, shows,
                      {.caption = "The same examples: differences to " + comparison.baseline,
                       .id = "examples-table"},
                      out);
  return out.take();
}

std::string metrics_html(const Report& report) {
  const std::set<std::string> names = final_metrics(report, /*of_classes=*/false);
  if (names.empty()) return "";
  const bool all = final_metrics(report, /*of_classes=*/true).empty();
  Table table{
      std::string("All final metrics") + (all ? "" : " except those of single classes") + kOverRuns,
      {"experiment", "attention"},
      {},
      "metrics-table"};
  const std::vector<std::string> order = report.comparison.book.in_order(names);
  for (const std::string& name : order) {
    table.columns.emplace_back(metric_heading(report.info(name)), /*number=*/true);
  }
  for (const PooledCell& one : report.cells) {
    std::vector<TableCell>& row = table.rows.emplace_back();
    row.emplace_back(report.slices.all[one.slice].name);
    row.emplace_back(one.attention);
    for (const std::string& name : order) row.push_back(pooled_cell(report, one, name));
  }
  HtmlDocument out;
  out.table(table);
  return out.take();
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
  HtmlDocument out;
  int tables = 0;
  for (std::size_t slice = 0; slice < report.slices.all.size(); ++slice) {
    for (const auto& [stem, names] : by_stem) {
      write_classes(report, slice, stem, names, tables, out);
    }
  }
  return out.take();
}

}  // namespace attnlab
