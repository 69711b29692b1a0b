// The page over domains as a paper's table.
#include <fmt/format.h>

#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/base/unicode.h"
#include "framework/report/domain_report.h"
#include "framework/report/markup.h"

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

/// "+0.86 [0.21, 1.51]" in math, so that signs are signs; words as text.
std::string latex_cell(const DomainPage& page, const DomainRow& row, std::size_t column) {
  const DomainCell& cell = row.cells[column];
  const std::string verdict = cell_verdict(page, row, column);
  if (cell.row.summary.count == 0) return small(latex_text(verdict));
  std::string lost = cell.whole() ? "" : " " + small(latex_text(verdict));
  const std::string missing = missing_text(page, row, column);
  if (!missing.empty()) lost += " " + small(latex_text(missing));
  const std::string own = summary_text(cell.row.metric, cell.row.summary);
  if (row.attention == page.baseline) return plus_minus(own) + lost;
  if (!cell.row.contrast || cell.row.contrast->difference.count == 0) {
    const std::string why = cell.whole() ? " " + small(latex_text(verdict)) : "";
    return small("mean " + plus_minus(own)) + why + lost;
  }
  const std::string text = cell_text(page, row, column);
  const std::size_t bracket = text.find(" [");
  const char* mark = verdict == "better" ? "^{\\dagger}" : verdict == "worse" ? "^{\\ddagger}" : "";
  std::string out = "$" + text.substr(0, bracket) + mark + "$";
  if (bracket != std::string::npos) out += " " + small("$" + text.substr(bracket + 1) + "$");
  return out + lost;
}

std::string latex_heading(const DomainPage& page, std::size_t column) {
  std::string text = page.columns[column].name();
  const std::string unit = difference_unit(page.metrics[column]);
  if (!unit.empty()) text += fmt::format(" ({})", unit);
  const char* arrow = page.metrics[column].better == Better::lower    ? " $\\downarrow$"
                      : page.metrics[column].better == Better::higher ? " $\\uparrow$"
                                                                      : "";
  return latex_text(text) + arrow;
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

std::string caption(const DomainPage& page) {
  return fmt::format(
      "  \\caption{{{} Difference to {} with its {} \\% interval; {}: mean $\\pm$ sample standard "
      "deviation. $\\dagger$ ($\\ddagger$): significantly better (worse), paired test `{}'{}, "
      "level "
      "{}. Where seeds diverged or are missing, numbers are of the others.{}}}\n",
      latex_text(page.title + "."), latex_text(page.baseline),
      shortest(100 - 100 * page.options.level), latex_text(page.baseline),
      latex_text(page.options.test),
      page.options.correct == "holm" ? ", Holm's correction over a row" : "",
      shortest(page.options.level), caption_warnings(page));
}

std::string comments(const DomainPage& page, const PageStamp& stamp) {
  std::string out = fmt::format("% Made by attnlab {}, {}: {}\n% Needs \\usepackage{{booktabs}}.\n",
                                ATTNLAB_VERSION, valid_utf8(stamp.date), valid_utf8(stamp.command));
  for (const ConfigDifference& one : page.differences) {
    out += "% NOT FAIR: " + one_line(one.text()) + "\n";
  }
  for (const std::string& line : page_absences(page)) out += "% MISSING: " + one_line(line) + "\n";
  return out;
}

}  // namespace

std::string domain_latex(const DomainPage& page, const PageStamp& stamp) {
  std::string out = comments(page, stamp) + "\\begin{table}[t]\n  \\centering\\small\n" +
                    caption(page) + "  \\label{tab:attnlab-domains}\n";
  // Columns turned into rows: there are more of them than fit side by side.
  out += "  \\begin{tabular}{l" + std::string(page.rows.size(), 'r') + "}\n    \\toprule\n    ";
  for (const DomainRow& row : page.rows) out += " & " + latex_text(row.attention);
  out += " \\\\\n    \\midrule\n";
  for (std::size_t i = 0; i < page.columns.size(); ++i) {
    out += "    " + latex_heading(page, i);
    for (const DomainRow& row : page.rows) out += " & " + latex_cell(page, row, i);
    out += " \\\\\n";
  }
  out += "    \\midrule\n    over domains ($g$)";
  for (const DomainRow& row : page.rows) {
    out += " & " + (row.summary ? "$" + summary_cell_text(row) + "$" : std::string("--"));
  }
  return out + " \\\\\n    \\bottomrule\n  \\end{tabular}\n\\end{table}\n";
}

}  // namespace attnlab
