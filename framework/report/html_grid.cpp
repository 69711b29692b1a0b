// The page's sections on runs that are pooled: a grid's tables and chart, and
// distributions.
#include <fmt/format.h>

#include "framework/base/text.h"
#include "framework/document/html.h"
#include "framework/document/markup.h"
#include "framework/report/html_parts.h"
#include "framework/report/pool_tables.h"

namespace attnlab {
namespace {

/// The first metric by each axis stands open, the others are folded away.
std::string grid_tables(const Report& report, std::size_t number) {
  const std::vector<PoolTable> tables = pool_tables(report, report.slices.grids[number]);
  const MetricInfo& first = tables.front().columns.front().metric;
  HtmlDocument open, folded;
  bool any = false;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    Table table = table_of(report, tables[i]);
    table.id = fmt::format("grid-{}-{}", number, i);
    const bool stands = tables[i].axis.empty() || tables[i].columns.front().metric == first;
    (stands ? open : folded).table(table);
    any |= !stands;
  }
  if (any) {
    open.begin_fold("The other outcomes by " + join(report.slices.grids[number].pool, ", "));
    open.raw(folded.take());
    open.end_fold();
  }
  return open.take();
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
                   fmt::format("Histograms of the finished runs' results, in percent of an "
                               "attention's runs; bins and scales are the same for all attentions. "
                               "Attentions with fewer than {} finished runs have no histogram.",
                               kFewestInHistogram));
}

}  // namespace attnlab
