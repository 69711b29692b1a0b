// The page over domains as a paper's table.
#include <fmt/format.h>

#include <algorithm>

#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/base/unicode.h"
#include "framework/report/domain_report.h"
#include "framework/report/markup.h"
#include "framework/runs/metric_text.h"

namespace attnlab {
namespace {

std::string small(const std::string& text) { return "{\\footnotesize " + text + "}"; }

/// "71.20 ± 0.31" in math.
std::string plus_minus(std::string text) {
  const std::string sign = "±";
  if (const std::size_t at = text.find(sign); at != std::string::npos) {
    text.replace(at, sign.size(), "\\pm");
  }
  return "$" + text + "$";
}

/// CellLines of a cell, one below the other: side by side they fit no page.
using CellLines = std::vector<std::string>;

/// "+0.86" above "[0.21, 1.51]", in math.
CellLines two_lines(const std::string& text, const std::string& mark) {
  const std::size_t bracket = text.find(" [");
  CellLines lines = {"$" + text.substr(0, bracket) + mark + "$"};
  if (bracket != std::string::npos) lines.push_back(small("$" + text.substr(bracket + 1) + "$"));
  return lines;
}

/// A difference, its interval below it, and below that what it is not of; words as text.
CellLines latex_cell(const DomainPage& page, const DomainRow& row, std::size_t column) {
  const DomainCell& cell = row.cells[column];
  const std::string verdict = cell_verdict(page, row, column);
  if (cell.row.summary.count == 0) return {small(latex_text(verdict))};
  const std::string own = plus_minus(summary_text(cell.row.metric, cell.row.summary));
  CellLines lines;
  if (row.attention == page.baseline) {
    lines = {own};
  } else if (!cell.row.contrast || cell.row.contrast->difference.count == 0) {
    lines = {small("mean " + own)};
    if (cell.whole()) lines.push_back(small(latex_text(verdict)));
  } else {
    lines = two_lines(cell_text(page, row, column), verdict == "better"  ? "^{\\dagger}"
                                                    : verdict == "worse" ? "^{\\ddagger}"
                                                                         : "");
  }
  if (!cell.whole()) lines.push_back(small(latex_text(verdict)));
  const std::string missing = missing_text(page, row, column);
  if (!missing.empty()) lines.push_back(small(latex_text(missing)));
  return lines;
}

CellLines latex_heading(const DomainPage& page, std::size_t column) {
  const char* arrow = page.metrics[column].better == Better::lower    ? " $\\downarrow$"
                      : page.metrics[column].better == Better::higher ? " $\\uparrow$"
                                                                      : "";
  CellLines lines = {latex_text(page.columns[column].name()) + arrow};
  std::vector<std::string> below;
  const std::string unit = difference_unit(page.metrics[column]);
  if (!unit.empty()) below.push_back(unit);
  const ColumnRole role = page.columns[column].role;
  if (role != ColumnRole::quality) below.emplace_back(name_of(role));
  if (!below.empty()) lines.push_back(small(latex_text(join(below, ", "))));
  return lines;
}

/// Cells side by side, as many rows of a tabular as the longest has lines.
std::string latex_rows(const std::vector<CellLines>& cells) {
  std::size_t most = 0;
  for (const CellLines& cell : cells) most = std::max(most, cell.size());
  std::string out;
  for (std::size_t line = 0; line < most; ++line) {
    std::string row;
    for (const CellLines& cell : cells) {
      if (&cell != &cells.front()) row += " & ";
      if (line < cell.size()) row += cell[line];
    }
    out += "    " + row + " \\\\\n";
  }
  return out;
}

/// What a reader must know, where no table can be taken without it: in the caption.
std::string caption_warnings(const DomainPage& page) {
  std::string out;
  for (const std::string& note : page.notes) {
    if (note.rfind("WARNING", 0) != 0) continue;
    out += fmt::format(" \\textbf{{{}.}}", latex_text(one_line(note)));
  }
  if (page.differences.empty()) return out;
  return out +
         fmt::format(" \\textbf{{Not a fair comparison: more than the attention differs ({} {}).}}",
                     page.differences.size(), page.differences.size() == 1 ? "value" : "values");
}

/// @param part  " (1 of 4)" of several tables
std::string caption(const DomainPage& page, const std::string& part) {
  return fmt::format(
      "  \\caption{{{} Difference to {} with its {} \\% interval below it; {}: mean $\\pm$ sample "
      "standard "
      "deviation. $\\dagger$ ($\\ddagger$): significantly better (worse), paired test `{}'{}, "
      "level "
      "{}. Where seeds diverged or are missing, numbers are of the others.{}{}}}\n",
      latex_text(page.title + part + "."), latex_text(page.baseline),
      shortest(100 - 100 * page.options.level), latex_text(page.baseline),
      latex_text(page.options.test),
      page.options.correct == "holm" ? ", Holm's correction over a row" : "",
      shortest(page.options.level),
      std::any_of(page.metrics.begin(), page.metrics.end(), is_share_of_runs)
          ? " What is 1 or 0 of each run is tested by flipping signs, if at all."
          : "",
      caption_warnings(page));
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
std::string tabular(const DomainPage& page, const TableRows& rows) {
  std::vector<CellLines> heading = {CellLines{""}};
  std::vector<CellLines> summary = {CellLines{"over domains ($g$)"}};
  for (const DomainRow* row : rows) {
    heading.push_back({latex_text(row->attention)});
    summary.push_back(row->summary ? two_lines(summary_cell_text(*row), "") : CellLines{"--"});
  }
  std::string out = "  \\begin{tabular}{l" + std::string(rows.size(), 'r') + "}\n    \\toprule\n" +
                    latex_rows(heading) + "    \\midrule\n";
  for (std::size_t i = 0; i < page.columns.size(); ++i) {
    std::vector<CellLines> cells = {latex_heading(page, i)};
    for (const DomainRow* row : rows) cells.push_back(latex_cell(page, *row, i));
    if (i > 0) out += "    \\addlinespace\n";
    out += latex_rows(cells);
  }
  return out + "    \\midrule\n" + latex_rows(summary) + "    \\bottomrule\n  \\end{tabular}\n";
}

}  // namespace

std::string domain_latex(const DomainPage& page, const PageStamp& stamp) {
  std::string out = comments(page, stamp);
  const std::vector<TableRows> tables = tables_of(page);
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const bool several = tables.size() > 1;
    const std::string part = several ? fmt::format(" ({} of {})", i + 1, tables.size()) : "";
    out += "\\begin{table}[t]\n  \\centering\\small\\setlength{\\tabcolsep}{4pt}\n" +
           caption(page, part) +
           fmt::format("  \\label{{tab:attnlab-domains{}}}\n",
                       several ? fmt::format("-{}", i + 1) : "") +
           tabular(page, tables[i]) + "\\end{table}\n";
  }
  return out;
}

}  // namespace attnlab
