// A table for a paper: attentions in rows, experiments in columns.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "framework/base/text.h"
#include "framework/base/unicode.h"
#include "framework/comparison/quantities.h"
#include "framework/document/latex.h"
#include "framework/report/pool_tables.h"
#include "framework/report/report.h"
#include "framework/runs/metric_text.h"

namespace attnlab {
namespace {

/// "2 of 3 seeds: seed 1 diverged: loss is nan"; empty where every seed has a value.
std::string missing_seeds(const ComparisonRow& row) {
  std::vector<std::string> parts;
  for (const SeedValue& seed : row.seeds) {
    if (seed.gap) parts.push_back(fmt::format("seed {} {}", seed.seed, seed.gap.text()));
  }
  if (parts.empty()) return "";
  return fmt::format("{} of {} seeds: {}", row.summary.count, row.seeds.size(), join(parts, "; "));
}

TableCell value_cell(const ComparisonRow& row, const Podium& podium) {
  TableCell cell;
  if (!row.gap) cell = {quantity_of(row.metric, row.summary), podium.mark(row)};
  if (row.contrast && row.contrast->significant) cell.marks |= row.improves() ? kBetter : kWorse;
  cell.why = row.gap ? row.gap.text() : missing_seeds(row);
  return cell;
}

/// Every seed count that occurs: "3 seeds", "3 to 5 seeds".
std::string seeds_text(const Comparison& comparison) {
  std::size_t least = comparison.rows.front().seeds.size(), most = least;
  for (const ComparisonRow& row : comparison.rows) {
    least = std::min(least, row.seeds.size());
    most = std::max(most, row.seeds.size());
  }
  const std::string count =
      least == most ? std::to_string(most) : fmt::format("{} to {}", least, most);
  return count + (most == 1 ? " seed" : " seeds");
}

std::string caption(const Comparison& comparison, const std::vector<std::string>& experiments) {
  const auto common = common_metric(comparison);
  const std::string unit(common ? metric_unit(*common) : "");
  const std::string what =
      common ? fmt::format("{}{} ({})", common->name, unit.empty() ? "" : " in " + unit,
                           direction_text(*common))
             : "Each column's metric";
  std::string text = fmt::format(
      "{}, mean ± sample standard deviation over {}{}. Best in bold, second underlined.", what,
      seeds_text(comparison),
      any_shares_of_runs(comparison, experiments)
          ? "; shares of runs with Wilson's interval of 95 %"
          : "");
  if (comparison.attentions.size() == 1) return text;
  return fmt::format("{} † (‡): significantly better (worse) than {}. {}", text,
                     comparison.baseline, test_sentence(comparison));
}

std::vector<std::string> warnings_of(const Comparison& comparison) {
  if (comparison.differences.empty()) return {};
  return {kNotFair};
}

/// The experiments that stand by themselves; empty without one.
std::string comparison_latex(const Report& report) {
  const Comparison& comparison = report.comparison;
  const bool one_metric = common_metric(comparison).has_value();
  std::vector<std::string> experiments;
  Table table{"", {"attention"}};
  for (const std::string& experiment : comparison.experiments) {
    if (!report.shows(experiment)) continue;
    experiments.push_back(experiment);
    const MetricInfo& metric = comparison.metrics.at(experiment);
    table.columns.emplace_back(
        one_metric || metric.name.empty()
            ? experiment
            : fmt::format("{} ({}{})", experiment, metric_heading(metric), arrow_of(metric)));
  }
  if (experiments.empty()) return "";
  const std::map<std::string, Podium> podiums = podiums_of(comparison);
  std::map<std::pair<std::string, std::string>, const ComparisonRow*> rows;
  for (const ComparisonRow& row : comparison.rows) rows[{row.attention, row.experiment}] = &row;
  for (const std::string& attention : comparison.attentions) {
    std::vector<TableCell>& cells = table.rows.emplace_back(1, attention);
    for (const std::string& experiment : experiments) {
      cells.push_back(value_cell(*rows.at({attention, experiment}), podiums.at(experiment)));
    }
    const bool others = comparison.attentions.size() > 1;
    if (attention == comparison.baseline && others) table.rows.emplace_back();
  }
  table.caption = caption(comparison, experiments);
  return latex_table(table, {"attnlab", warnings_of(comparison)});
}

/// Over all points, and the first metric by each axis.
std::string grid_tables(const Report& report) {
  std::string out;
  std::size_t number = 0;
  for (const Grid& grid : report.slices.grids) {
    const std::vector<PoolTable> tables = pool_tables(report, grid);
    const MetricInfo& first = tables.front().columns.front().metric;
    for (const PoolTable& pool : tables) {
      if (!pool.axis.empty() && pool.columns.front().metric != first) continue;
      Table table = table_of(report, pool, /*with_runs=*/false);
      table.caption += ". " + pool_note(report);
      out += "\n" + latex_table(table, {fmt::format("attnlab-grid-{}", ++number)});
    }
  }
  return out;
}

}  // namespace

std::string report_latex(const Report& report, bool with_bibtex) {
  std::string out =
      latex_comment("Made by attnlab " ATTNLAB_VERSION ", " + valid_utf8(report.date) + ":\n" +
                    valid_utf8(report.command) + "\nNeeds \\usepackage{booktabs}.");
  for (const std::string& warning : warnings_of(report.comparison)) out += latex_comment(warning);
  out += comparison_latex(report) + grid_tables(report);
  if (with_bibtex && !report.citations.empty()) {
    out +=
        "\n" + latex_comment("BibTeX of what was compared (--bib FILE writes it by itself):\n\n" +
                             bibtex_of(report.citations));
  }
  return out;
}

}  // namespace attnlab
