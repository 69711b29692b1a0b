#include "framework/document/latex.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/document/markup.h"

namespace attnlab {
namespace {

/// Footnotes, each once, by letters: a, b, ... z, aa.
class Footnotes {
 public:
  std::string mark(const std::string& text) {
    const auto [found, is_new] = numbers_.emplace(text, texts_.size());
    if (is_new) texts_.push_back(text);
    return "\\textsuperscript{" + letters(found->second) + "}";
  }
  /// Below the table; empty without any.
  std::string text() const {
    if (texts_.empty()) return "";
    std::string out;
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      out += "  \\textsuperscript{" + letters(i) + "}~" + latex_text(texts_[i]) + ".\\\\\n";
    }
    return "\n  \\smallskip\n  \\begin{minipage}{\\linewidth}\\footnotesize\\raggedright\n" + out +
           "  \\end{minipage}\n";
  }

 private:
  static std::string letters(std::size_t number) {
    std::string out;
    for (++number; number > 0; number = (number - 1) / 26) {
      out.insert(out.begin(), static_cast<char>('a' + (number - 1) % 26));
    }
    return out;
  }

  std::map<std::string, std::size_t> numbers_;
  std::vector<std::string> texts_;
};

std::string small(const std::string& text) { return "{\\footnotesize " + text + "}"; }

/// "$\mathbf{54.00}^{\dagger} \pm 2.16$".
std::string math_of(const Quantity& quantity, unsigned marks) {
  std::string out = decimal(quantity.value, quantity.decimals, quantity.sign);
  if ((marks & kBest) != 0) {
    out = "\\mathbf{" + out + "}";
  } else if ((marks & kSecond) != 0) {
    out = "\\underline{" + out + "}";
  }
  if ((marks & kBetter) != 0) out += "^{\\dagger}";
  if ((marks & kWorse) != 0) out += "^{\\ddagger}";
  if (quantity.spread) out += " \\pm " + decimal(*quantity.spread, quantity.decimals);
  return "$" + out + "$";
}

using Lines = std::vector<std::string>;

/// What stands first; then, in small letters, the interval, and what stands beside the number.
Lines lines_of(const TableCell& cell, bool stacked, Footnotes& notes) {
  Lines out;
  const bool absent = (cell.marks & kAbsent) != 0;
  const std::string words = latex_text(cell.text);
  if (cell.number) {
    const std::string math = math_of(*cell.number, cell.marks);
    out.push_back(words.empty() ? math : small(words + " " + math));
    if (cell.number->interval) {
      out.push_back(
          small("$" + interval_text(*cell.number->interval, cell.number->decimals) + "$"));
    }
    out.back() += fewer_text(cell.number->count, cell.number->of);
  } else {
    out.push_back(words.empty() && absent ? "--" : absent && stacked ? small(words) : words);
  }
  if (!cell.why.empty()) out.back() += notes.mark(cell.why);
  for (const std::string& below : {cell.aside, cell.note}) {
    if (!below.empty()) out.push_back(small(latex_text(below)));
  }
  return stacked ? out : Lines{join(out, " ")};
}

/// Cells side by side, as many rows of a tabular as the longest has lines.
std::string rows_of(const std::vector<Lines>& cells) {
  std::size_t most = 0;
  for (const Lines& cell : cells) most = std::max(most, cell.size());
  std::string out;
  for (std::size_t line = 0; line < most; ++line) {
    out += "    ";
    for (const Lines& cell : cells) {
      if (&cell != &cells.front()) out += " & ";
      if (line < cell.size()) out += cell[line];
    }
    out += " \\\\\n";
  }
  return out;
}

std::string caption_of(const Table& table, const LatexTable& form) {
  std::string out = latex_text(table.caption);
  for (const std::string& warning : form.warnings) {
    out += fmt::format(" \\textbf{{{}{}}}", latex_text(one_line(warning)),
                       warning.ends_with('.') ? "" : ".");
  }
  return out;
}

}  // namespace

std::string latex_table(const Table& table, const LatexTable& form) {
  Footnotes notes;
  std::vector<Lines> heading;
  for (const Column& column : table.columns) heading.push_back({latex_text(column.heading)});
  std::string out = fmt::format(
      "\\begin{{table}}[t]\n  \\centering{}\n  \\caption{{{}}}\n  \\label{{tab:{}}}\n"
      "  \\begin{{tabular}}{{l{}}}\n    \\toprule\n{}    \\midrule\n",
      form.stacked ? "\\small\\setlength{\\tabcolsep}{4pt}" : "", caption_of(table, form),
      form.label, std::string(table.columns.size() - 1, form.stacked ? 'r' : 'c'),
      rows_of(heading));
  bool apart = false;
  for (const std::vector<TableCell>& row : table.rows) {
    if (row.empty()) {
      out += "    \\midrule\n";
      apart = false;
      continue;
    }
    if (apart && form.stacked) out += "    \\addlinespace\n";
    apart = true;
    std::vector<Lines> cells;
    cells.reserve(row.size());
    for (const TableCell& cell : row) cells.push_back(lines_of(cell, form.stacked, notes));
    out += rows_of(cells);
  }
  return out + "    \\bottomrule\n  \\end{tabular}\n" + notes.text() + "\\end{table}\n";
}

std::string latex_comment(const std::string& text) {
  std::string out = "% ";
  for (const char c : text) out += c == '\n' ? std::string("\n% ") : std::string(1, c);
  return out + "\n";
}

}  // namespace attnlab
