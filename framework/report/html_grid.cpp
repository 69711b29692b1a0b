// The page's sections on runs that are pooled: a grid's tables and chart, and
// distributions.
#include <fmt/format.h>

#include <cmath>

#include "framework/base/text.h"
#include "framework/comparison/table.h"
#include "framework/report/html_parts.h"
#include "framework/report/markup.h"
#include "framework/report/pool_tables.h"

namespace attnlab {
namespace {

HtmlCell summary_cell(const Report& report, const PoolColumn& column, const std::string& attention,
                      bool runs_stand_there) {
  const Summary* summary = find_summary(report, column, attention);
  if (summary == nullptr) return {"<span class=\"absent\">–</span>", "", "number"};
  return {html_text(summary_text(column.metric, *summary) +
                    fewer_runs_text(report, column, attention, runs_stand_there)),
          shortest(summary->mean), "number"};
}

std::string table_html(const Report& report, const PoolTable& table, const std::string& id) {
  std::vector<HtmlColumn> columns = {{"attention", "", false}};
  for (const PoolColumn& column : table.columns) columns.push_back({column.heading, "", true});
  const bool whole = table.axis.empty();
  if (whole) columns.push_back({"runs", "that are done, of all", true});
  std::vector<std::vector<HtmlCell>> rows;
  for (const std::string& attention : report.comparison.attentions) {
    const bool baseline = attention == report.comparison.baseline;
    std::vector<HtmlCell> row = {
        {html_text(attention) + (baseline ? " <small>(baseline)</small>" : ""), attention, "name"}};
    for (const PoolColumn& column : table.columns) {
      row.push_back(summary_cell(report, column, attention, whole));
    }
    if (whole) {
      const PooledCell* cell = find_cell(report, table.columns.front().slice, attention);
      row.push_back({html_text(runs_text(cell)), cell ? std::to_string(cell->done) : "", "number"});
    }
    rows.push_back(std::move(row));
  }
  return html_table(table.caption, columns, rows, id);
}

/// The first metric by each axis stands open, the others are folded away.
std::string grid_tables(const Report& report, std::size_t number) {
  const std::vector<PoolTable> tables = pool_tables(report, report.slices.grids[number]);
  const MetricInfo& first = tables.front().columns.front().metric;
  std::string open, folded;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const std::string id = fmt::format("grid-{}-{}", number, i);
    const bool stands = tables[i].axis.empty() || tables[i].columns.front().metric == first;
    (stands ? open : folded) += table_html(report, tables[i], id);
  }
  if (folded.empty()) return open;
  return fmt::format("{}<details><summary>The other outcomes by {}</summary>\n{}</details>\n", open,
                     html_text(join(report.slices.grids[number].pool, ", ")), folded);
}

}  // namespace

std::string grid_html(const Report& report) {
  if (report.slices.grids.empty()) return "";
  std::string out = chart_box(
      "grid",
      html_text("Lines are 95 % intervals of the mean: Wilson's for shares of runs, Student's for "
                "other numbers. Tables below: " +
                pool_note(report)));
  for (std::size_t i = 0; i < report.slices.grids.size(); ++i) out += grid_tables(report, i);
  return out;
}

std::string distributions_html(const Report& report) {
  if (report.histograms.empty()) return "";
  return chart_box("distributions",
                   fmt::format("How many of an attention's runs ended where, in percent of those "
                               "that are done; bins and scales are the same for all attentions. "
                               "Attentions with fewer than {} finished runs have none.",
                               kFewestInHistogram));
}

}  // namespace attnlab
