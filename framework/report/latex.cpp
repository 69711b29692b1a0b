// A table for a paper: attentions in rows, experiments in columns.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "framework/base/text.h"
#include "framework/base/unicode.h"
#include "framework/comparison/table.h"
#include "framework/report/markup.h"
#include "framework/report/pool_tables.h"
#include "framework/report/report.h"
#include "framework/runs/metric_text.h"

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
  std::string lines() const {
    std::string out;
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      out += "  \\textsuperscript{" + letters(i) + "}~" + latex_text(texts_[i]) + ".\\\\\n";
    }
    return out;
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

/// "58.13" of "58.13 ± 0.20" and of "58.13 [54.57, 61.62]", and what stands behind it.
struct PrintedSummary {
  std::string mean, deviation, interval;
};

PrintedSummary printed(const MetricInfo& metric, const Summary& summary) {
  const std::string text = summary_text(metric, summary), sign = " ± ";
  PrintedSummary out;
  if (const std::size_t at = text.find(sign); at != std::string::npos) {
    out.deviation = text.substr(at + sign.size());
    out.mean = text.substr(0, at);
  } else if (const std::size_t bracket = text.find(" ["); bracket != std::string::npos) {
    out.interval = text.substr(bracket + 1);
    out.mean = text.substr(0, bracket);
  } else {
    out.mean = text;
  }
  return out;
}

/// "\pm 0.20$", "$ {\footnotesize [54.57, 61.62]}": what follows a mean in a cell.
std::string spread_of(const PrintedSummary& text) {
  std::string out = text.deviation.empty() ? "$" : " \\pm " + text.deviation + "$";
  if (!text.interval.empty()) out += " {\\footnotesize " + text.interval + "}";
  return out;
}

int decimals_of(const std::string& number) {
  const std::size_t point = number.find('.');
  return point == std::string::npos ? 0 : static_cast<int>(number.size() - point - 1);
}

/// Whether two means look the same, with the fewer decimals of the two.
bool look_equal(const ComparisonRow& a, const ComparisonRow& b) {
  const int decimals = std::min(decimals_of(printed(a.metric, a.summary).mean),
                                decimals_of(printed(b.metric, b.summary).mean));
  const auto shown = [&](const ComparisonRow& row) {
    return fmt::format("{:.{}f}", metric_scale(row.metric) * row.summary.mean, decimals);
  };
  return shown(a) == shown(b);
}

/// The rows of an experiment's best mean, and of the best that does not look equal to it.
struct Podium {
  const ComparisonRow* first = nullptr;
  const ComparisonRow* second = nullptr;
};

Podium podium_of(const Comparison& comparison, const std::string& experiment) {
  std::vector<const ComparisonRow*> rows;
  for (const ComparisonRow& row : comparison.rows) {
    if (row.experiment == experiment && !row.gap) rows.push_back(&row);
  }
  if (rows.size() < 2) return {};  // the only one is not the best of anything
  const bool higher = comparison.metrics.at(experiment).better == Better::higher;
  std::stable_sort(rows.begin(), rows.end(), [&](const auto* a, const auto* b) {
    return higher ? a->summary.mean > b->summary.mean : a->summary.mean < b->summary.mean;
  });
  const auto second = std::find_if(rows.begin(), rows.end(),
                                   [&](const auto* row) { return !look_equal(*row, *rows[0]); });
  return {rows[0], second == rows.end() ? nullptr : *second};
}

/// "2 of 3 seeds: seed 1 diverged: loss is nan"; empty where every seed has a value.
std::string missing_seeds(const ComparisonRow& row) {
  std::vector<std::string> parts;
  for (const SeedValue& seed : row.seeds) {
    if (seed.gap) parts.push_back(fmt::format("seed {} {}", seed.seed, seed.gap.text()));
  }
  if (parts.empty()) return "";
  return fmt::format("{} of {} seeds: {}", row.summary.count, row.seeds.size(), join(parts, "; "));
}

std::string value_cell(const ComparisonRow& row, const Podium& podium, Footnotes& notes) {
  if (row.gap) return "--" + notes.mark(row.gap.text());
  const PrintedSummary text = printed(row.metric, row.summary);
  std::string cell = "$" + text.mean;
  if (podium.first != nullptr && look_equal(row, *podium.first)) {
    cell = "$\\mathbf{" + text.mean + "}";
  } else if (podium.second != nullptr && look_equal(row, *podium.second)) {
    cell = "$\\underline{" + text.mean + "}";
  }
  if (row.contrast && row.contrast->significant) {
    cell += row.improves() ? "^{\\dagger}" : "^{\\ddagger}";
  }
  cell += spread_of(text);
  const std::string missing = missing_seeds(row);
  return missing.empty() ? cell : cell + notes.mark(missing);
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

/// Where no table can be taken without it.
std::string unfair(const Comparison& comparison) {
  const std::size_t count = comparison.differences.size();
  if (count == 0) return "";
  return fmt::format(" \\textbf{{Not a fair comparison: more than the attention differs ({} {}).}}",
                     count, count == 1 ? "value" : "values");
}

std::string caption(const Comparison& comparison, const std::vector<std::string>& experiments) {
  const auto common = common_metric(comparison);
  const std::string unit(common ? metric_unit(*common) : "");
  const std::string what =
      common ? fmt::format("{}{} ({})", common->name, unit.empty() ? "" : " in " + unit,
                           direction_text(*common))
             : "Each column's metric";
  std::string text = fmt::format(
      "{}, mean $\\pm$ sample standard deviation over {}{}. Best in bold, second underlined. ",
      latex_text(what), seeds_text(comparison),
      any_shares_of_runs(comparison, experiments)
          ? "; shares of runs with Wilson's interval of 95 \\%"
          : "");
  if (comparison.attentions.size() > 1) {
    text += fmt::format("$\\dagger$ ($\\ddagger$): significantly better (worse) than {}. {}",
                        latex_text(comparison.baseline), latex_text(test_sentence(comparison)));
  }
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.pop_back();
  return text + unfair(comparison);
}

std::string commented(const std::string& text) {
  std::string out = "% ";
  for (const char c : text) out += c == '\n' ? std::string("\n% ") : std::string(1, c);
  return out + "\n";
}

std::string table_rows(const Comparison& comparison, const std::vector<std::string>& experiments,
                       Footnotes& notes) {
  std::map<std::string, Podium> podiums;
  for (const std::string& experiment : experiments) {
    podiums[experiment] = podium_of(comparison, experiment);
  }
  std::map<std::pair<std::string, std::string>, const ComparisonRow*> rows;
  for (const ComparisonRow& row : comparison.rows) rows[{row.attention, row.experiment}] = &row;
  std::string out;
  for (const std::string& attention : comparison.attentions) {
    out += "    " + latex_text(attention);
    for (const std::string& experiment : experiments) {
      out += " & " + value_cell(*rows.at({attention, experiment}), podiums.at(experiment), notes);
    }
    out += " \\\\\n";
    if (attention == comparison.baseline && comparison.attentions.size() > 1) {
      out += "    \\midrule\n";
    }
  }
  return out;
}

/// @param label  of the table: "attnlab"
/// @param columns  each column's heading, as LaTeX
std::string table_head(const std::string& caption, const std::string& label,
                       const std::vector<std::string>& columns) {
  std::string out = "\\begin{table}[t]\n  \\centering\n  \\caption{" + caption +
                    "}\n  \\label{tab:" + label + "}\n  \\begin{tabular}{l" +
                    std::string(columns.size(), 'c') + "}\n    \\toprule\n    attention";
  for (const std::string& column : columns) out += " & " + column;
  return out + " \\\\\n    \\midrule\n";
}

constexpr const char* kTableEnd = "    \\bottomrule\n  \\end{tabular}\n";

/// The experiments that stand by themselves; empty without one.
std::string comparison_table(const Report& report) {
  const Comparison& comparison = report.comparison;
  const bool one_metric = common_metric(comparison).has_value();
  std::vector<std::string> experiments, columns;
  for (const std::string& experiment : comparison.experiments) {
    if (!report.shows(experiment)) continue;
    experiments.push_back(experiment);
    const MetricInfo& metric = comparison.metrics.at(experiment);
    columns.push_back(
        latex_text(experiment) +
        (one_metric || metric.name.empty()
             ? ""
             : fmt::format(" ({}{}", latex_text(metric_heading(metric)),
                           metric.better == Better::higher ? " $\\uparrow$)" : " $\\downarrow$)")));
  }
  if (experiments.empty()) return "";
  Footnotes notes;
  std::string out = table_head(caption(comparison, experiments), "attnlab", columns) +
                    table_rows(comparison, experiments, notes) + kTableEnd;
  const std::string lines = notes.lines();
  if (!lines.empty()) {
    out += "\n  \\smallskip\n  \\begin{minipage}{\\linewidth}\\footnotesize\\raggedright\n" +
           lines + "  \\end{minipage}\n";
  }
  return out + "\\end{table}\n";
}

/// "$58.13$ {\footnotesize [54.57, 61.62]}", "$46.1 \pm 28.7$ (2 of 3)", "--".
std::string pooled_cell(const Report& report, const PoolColumn& column,
                        const std::string& attention) {
  const Summary* summary = find_summary(report, column, attention);
  if (summary == nullptr) return "--";
  const PrintedSummary text = printed(column.metric, *summary);
  return "$" + text.mean + spread_of(text) + fewer_runs_text(report, column, attention);
}

std::string pooled_caption(const Report& report, const PoolTable& table) {
  std::string text = latex_text(fmt::format("{}. {}", table.caption, pool_note(report)));
  const std::string sign = "±";
  const std::size_t at = text.find(sign);
  return at == std::string::npos ? text : text.replace(at, sign.size(), "$\\pm$");
}

std::string pooled_table(const Report& report, const PoolTable& table, std::size_t number) {
  std::vector<std::string> columns;
  columns.reserve(table.columns.size());
  for (const PoolColumn& column : table.columns) columns.push_back(latex_text(column.heading));
  std::string out = "\n" + table_head(pooled_caption(report, table),
                                      fmt::format("attnlab-grid-{}", number), columns);
  for (const std::string& attention : report.comparison.attentions) {
    out += "    " + latex_text(attention);
    for (const PoolColumn& column : table.columns) {
      out += " & " + pooled_cell(report, column, attention);
    }
    out += " \\\\\n";
  }
  return out + kTableEnd + "\\end{table}\n";
}

/// Over all points, and the first metric by each axis.
std::string grid_tables(const Report& report) {
  std::string out;
  std::size_t number = 0;
  for (const Grid& grid : report.slices.grids) {
    const std::vector<PoolTable> tables = pool_tables(report, grid);
    const MetricInfo& first = tables.front().columns.front().metric;
    for (const PoolTable& table : tables) {
      if (!table.axis.empty() && table.columns.front().metric != first) continue;
      out += pooled_table(report, table, ++number);
    }
  }
  return out;
}

}  // namespace

std::string report_latex(const Report& report, bool with_bibtex) {
  std::string out =
      commented("Made by attnlab " ATTNLAB_VERSION ", " + valid_utf8(report.date) + ":\n" +
                valid_utf8(report.command) + "\nNeeds \\usepackage{booktabs}.");
  if (!report.comparison.differences.empty()) {
    out += commented("NOT A FAIR COMPARISON: the runs differ in more than the attention.");
  }
  out += comparison_table(report) + grid_tables(report);
  if (with_bibtex && !report.citations.empty()) {
    out += "\n" + commented("BibTeX of what was compared (--bib FILE writes it by itself):\n\n" +
                            bibtex_of(report.citations));
  }
  return out;
}

}  // namespace attnlab
