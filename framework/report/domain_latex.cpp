// The page over domains as a paper's table.
#include <fmt/format.h>

#include <algorithm>

#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/base/unicode.h"
#include "framework/comparison/quantities.h"
#include "framework/document/latex.h"
#include "framework/report/domain_report.h"
#include "framework/runs/metric_text.h"

namespace attnlab {
namespace {

/// A difference has daggers in place of a verdict.
TableCell latex_cell(const DomainPage& page, const DomainRow& row, std::size_t column) {
  TableCell cell = domain_cell(page, row, column);
  const bool difference = cell.number && cell.text.empty();
  if (difference && row.cells[column].whole()) cell.aside.clear();
  cell.why.clear();
  return cell;
}

TableCell latex_heading(const DomainPage& page, std::size_t column) {
  TableCell cell(page.columns[column].name() + arrow_of(page.metrics[column]));
  std::vector<std::string> below;
  if (const std::string unit = difference_unit(page.metrics[column]); !unit.empty()) {
    below.push_back(unit);
  }
  const ColumnRole role = page.columns[column].role;
  if (role != ColumnRole::quality) below.emplace_back(name_of(role));
  cell.aside = join(below, ", ");
  return cell;
}

/// @param part  " (1 of 4)" of several tables
std::string caption(const DomainPage& page, const std::string& part) {
  return fmt::format(
      "{}{}. Difference to {} with its {} % interval below it; {}: mean ± sample standard "
      "deviation. † (‡): significantly better (worse), paired test '{}'{}, level {}. Where seeds "
      "diverged or are missing, numbers are of the others.{}",
      page.title, part, page.baseline, shortest(100 - 100 * page.options.level), page.baseline,
      page.options.test, page.options.correct == "holm" ? ", Holm's correction over a row" : "",
      shortest(page.options.level),
      std::any_of(page.metrics.begin(), page.metrics.end(), is_share_of_runs)
          ? " Metrics that are 1 or 0 for each run are tested by flipping signs, if at all."
          : "");
}

std::string comments(const DomainPage& page, const PageStamp& stamp) {
  std::string out = fmt::format("% Made by attnlab {}, {}: {}\n% Needs \\usepackage{{booktabs}}.\n",
                                ATTNLAB_VERSION, valid_utf8(stamp.date), one_line(stamp.command));
  for (const ConfigDifference& one : page.differences) {
    out += "% NOT FAIR: " + one_line(one.text()) + "\n";
  }
  for (const std::string& line : page_absences(page)) out += "% MISSING: " + one_line(line) + "\n";
  return out;
}

/// How many attentions stand beside the baseline in one table.
constexpr std::size_t kAttentionsOfATable = 4;

using TableRows = std::vector<const DomainRow*>;

/// The rows of each table, the baseline first in all; of about equal size.
std::vector<TableRows> tables_of(const DomainPage& page) {
  const std::size_t others = page.rows.size() - 1;
  const std::size_t count =
      std::max<std::size_t>(1, (others + kAttentionsOfATable - 1) / kAttentionsOfATable);
  std::vector<TableRows> tables;
  std::size_t next = 1;
  for (std::size_t i = 0; i < count; ++i) {
    TableRows rows = {&page.rows.front()};
    const std::size_t end = 1 + (i + 1) * others / count;
    for (; next < end; ++next) rows.push_back(&page.rows[next]);
    tables.push_back(std::move(rows));
  }
  return tables;
}

/// Columns of the page turned into rows: there are more of them than fit side by side.
Table table_of(const DomainPage& page, const TableRows& rows) {
  Table table;
  table.columns.emplace_back("");
  for (const DomainRow* row : rows) table.columns.emplace_back(row->attention);
  for (std::size_t i = 0; i < page.columns.size(); ++i) {
    std::vector<TableCell>& cells = table.rows.emplace_back(1, latex_heading(page, i));
    for (const DomainRow* row : rows) cells.push_back(latex_cell(page, *row, i));
  }
  table.rows.emplace_back();
  std::vector<TableCell>& summary = table.rows.emplace_back(1, "over domains (Hedges' g)");
  for (const DomainRow* row : rows) summary.push_back(summary_cell(*row));
  return table;
}

}  // namespace

std::string domain_latex(const DomainPage& page, const PageStamp& stamp) {
  std::string out = comments(page, stamp);
  const std::vector<TableRows> tables = tables_of(page);
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const bool several = tables.size() > 1;
    Table table = table_of(page, tables[i]);
    table.caption = caption(page, several ? fmt::format(" ({} of {})", i + 1, tables.size()) : "");
    out += latex_table(table, {"attnlab-domains" + (several ? fmt::format("-{}", i + 1) : ""),
                               page_warnings(page), /*stacked=*/true});
  }
  return out;
}

}  // namespace attnlab
