#include "framework/report/html_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "framework/base/text.h"
#include "framework/comparison/table.h"
#include "framework/report/markup.h"

namespace attnlab {
namespace {

constexpr std::size_t kMostValues = 6, kMostConfigurations = 20;

HtmlCell text_cell(const std::string& text, const std::string& style = "") {
  return {html_text(text), text, style};
}
HtmlCell number_cell(const std::string& text, double value, const std::string& style = "") {
  return {html_text(text), std::isfinite(value) ? shortest(value) : "", "number " + style};
}

std::string head_cell(const HtmlColumn& column, bool sortable) {
  const std::string title =
      column.help.empty() ? "" : fmt::format(" title=\"{}\"", html_text(column.help));
  const std::string style = column.number ? " class=\"number\"" : "";
  const std::string name = html_text(column.name);
  return fmt::format("<th scope=\"col\"{}{}>{}</th>", style, title,
                     sortable ? fmt::format("<button type=\"button\">{}</button>", name) : name);
}

std::string paragraph(const std::string& html, const std::string& style = "") {
  return fmt::format("{}{}</p>\n", style.empty() ? "<p>" : fmt::format("<p class=\"{}\">", style),
                     html);
}

std::string folded(const std::string& title, const std::string& html) {
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", html_text(title), html);
}

}  // namespace

std::string html_table(const std::string& caption, const std::vector<HtmlColumn>& columns,
                       const std::vector<std::vector<HtmlCell>>& rows, const std::string& id) {
  std::string out =
      fmt::format("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n<table",
                  html_text(caption));
  if (!id.empty()) out += fmt::format(" class=\"sortable\" id=\"{}\"", id);
  out += fmt::format(">\n<caption>{}</caption>\n<thead><tr>", html_text(caption));
  for (const HtmlColumn& column : columns) out += head_cell(column, !id.empty());
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : rows) {
    out += "<tr>";
    for (const HtmlCell& cell : row) {
      out += cell.style.empty() ? "<td" : fmt::format("<td class=\"{}\"", cell.style);
      if (!id.empty()) out += fmt::format(" data-order=\"{}\"", html_text(cell.order));
      out += fmt::format(">{}</td>", cell.html);
    }
    out += "</tr>\n";
  }
  return out + "</tbody>\n</table>\n</div>\n";
}

std::string chart_box(const std::string& id, const std::string& note) {
  return fmt::format(
      "<div class=\"controls\" id=\"{0}-controls\"></div>\n<div class=\"charts\" id=\"{0}-charts\">"
      "<noscript>This chart needs scripts, which are off.</noscript></div>\n"
      "<p class=\"note\">{1}</p>\n",
      id, note);
}

namespace {

// ---- settings

std::string options_table(const Report& report) {
  std::vector<std::vector<HtmlCell>> rows;
  for (const auto& [label, options] : report.attentions) {
    const bool baseline = label == report.comparison.baseline;
    rows.push_back({text_cell(label + (baseline ? " (baseline)" : "")),
                    {fmt::format("<code>{}</code>", html_text(options)), "", ""}});
  }
  return html_table("What the attentions are", {{"attention", "", false}, {"options", "", false}},
                    rows);
}

std::string experiments_table(const Report& report) {
  if (report.settings.empty()) return "";
  std::vector<HtmlColumn> columns = {{"setting", "", false}};
  for (const auto& [experiment, value] : report.settings.front().values) {
    columns.push_back({experiment, "", false});
  }
  std::vector<std::vector<HtmlCell>> rows;
  for (const ExperimentSetting& setting : report.settings) {
    std::vector<HtmlCell> row = {{fmt::format("<code>{}</code>", html_text(setting.key)), "", ""}};
    for (const auto& [experiment, value] : setting.values) {
      row.push_back({fmt::format("<code>{}</code>", html_text(value)), "", ""});
    }
    rows.push_back(std::move(row));
  }
  return html_table("In what the experiments differ", columns, rows);
}

/// The axes of each grid.
std::string grids_table(const Report& report) {
  std::vector<std::vector<HtmlCell>> rows;
  for (const Grid& grid : report.slices.grids) {
    for (const auto& [axis, values] : grid.axes) {
      rows.push_back({text_cell(grid.base),
                      {fmt::format("<code>{}</code>", html_text(axis)), "", ""},
                      {fmt::format("<code>{}</code>", html_text(join(values, ", "))), "", ""}});
    }
  }
  if (rows.empty()) return "";
  return html_table("What the grids vary",
                    {{"experiment", "", false}, {"setting", "", false}, {"values", "", false}},
                    rows);
}

std::string differences_table(const std::string& caption,
                              const std::vector<ConfigDifference>& differences) {
  std::vector<std::vector<HtmlCell>> rows;
  for (const ConfigDifference& one : differences) {
    for (const auto& [value, runs] : one.values) {
      rows.push_back({text_cell(one.experiment),
                      {fmt::format("<code>{}</code>", html_text(one.key)), "", ""},
                      {fmt::format("<code>{}</code>", html_text(value)), "", ""},
                      text_cell(runs)});
    }
  }
  return html_table(
      caption,
      {{"experiment", "", false}, {"key", "", false}, {"value", "", false}, {"runs", "", false}},
      rows);
}

/// One run of each experiment, of the baseline where it has one; of the points of a grid only the
/// first, where they do not stand by themselves.
std::vector<const RunRecord*> typical_runs(const Report& report) {
  std::vector<const RunRecord*> out;
  std::set<std::string> grids;
  for (const RunRecord& run : report.collection.runs) {
    const bool same = !out.empty() && out.back()->experiment == run.experiment;
    const std::string& base = report.slices.base_of(run.experiment);
    if (!same && !report.shows(run.experiment) && !grids.insert(base).second) continue;
    if (!same) out.push_back(&run);
    const std::string& baseline = report.comparison.baseline;
    if (run.attention == baseline && out.back()->attention != baseline) out.back() = &run;
  }
  return out;
}

std::string configurations(const Report& report) {
  const std::vector<const RunRecord*> runs = typical_runs(report);
  std::string out;
  for (std::size_t i = 0; i < std::min(runs.size(), kMostConfigurations); ++i) {
    const RunRecord& run = *runs[i];
    out += folded(
        fmt::format("All settings of {} ({}, seed {})", run.experiment, run.attention, run.seed),
        fmt::format("<pre tabindex=\"0\">{}</pre>\n", html_text(to_yaml(run.config.tree()))));
  }
  if (runs.size() > kMostConfigurations) {
    out += paragraph("Those of further experiments are in their runs' <code>config.yaml</code>.",
                     "note");
  }
  return out;
}

std::string values_text(const Fact& fact, std::size_t runs) {
  std::string out;
  for (std::size_t i = 0; i < fact.values.size(); ++i) {
    if (i == kMostValues) {
      return fmt::format("{}<br>and {} more values", out, fact.values.size() - i);
    }
    const auto& [value, count] = fact.values[i];
    const bool all = static_cast<std::size_t>(count) == runs;
    out += (i > 0 ? "<br>" : "") + html_text(value);
    if (!all) out += fmt::format(" <small>({} of {} runs)</small>", count, runs);
  }
  return out;
}

std::string plugins_table(const Report& report) {
  std::vector<std::vector<HtmlCell>> rows;
  rows.reserve(report.plugins.size());
  for (const PluginUse& plugin : report.plugins) {
    rows.push_back({text_cell(plugin.kind),
                    text_cell(plugin.id),
                    {fmt::format("<code>{}</code>", html_text(plugin.hash)), "", ""},
                    number_cell(std::to_string(plugin.runs), static_cast<double>(plugin.runs))});
  }
  return html_table(
      "Plugins and the hashes of their files",
      {{"kind", "", false}, {"plugin", "", false}, {"hash", "", false}, {"runs", "", true}}, rows);
}

}  // namespace

std::string settings_html(const Report& report) {
  const Comparison& comparison = report.comparison;
  std::string out;
  if (comparison.differences.empty()) {
    out += paragraph(
        fmt::format("<strong>Fair:</strong> the frozen configurations of {} runs agree. Within "
                    "each experiment all {} values outside <code>attention</code>, the data and "
                    "the other plugins' files are the same.",
                    comparison.runs, comparison.values),
        "fair");
  } else {
    out += paragraph(
               "<strong>Not a fair comparison:</strong> the runs differ in more than the "
               "attention.",
               "unfair") +
           differences_table("What differs beside the attention", comparison.differences);
  }
  if (!comparison.matched.empty()) {
    out += differences_table("What the suite's match: or set: gave, as part of the attention",
                             comparison.matched);
  }
  return out + options_table(report) + grids_table(report) + experiments_table(report) +
         configurations(report);
}

std::string environment_html(const Report& report) {
  std::vector<std::vector<HtmlCell>> rows;
  std::string folds;
  for (const Fact& fact : report.environment) {
    std::int64_t runs = 0;
    for (const auto& [value, count] : fact.values) runs += count;
    const std::string values = values_text(fact, static_cast<std::size_t>(runs));
    if (fact.values.front().first.find('\n') != std::string::npos) {
      folds += folded(fact.key, fmt::format("<pre tabindex=\"0\">{}</pre>\n", values));
    } else {
      rows.push_back({text_cell(fact.key), {values, "", ""}});
    }
  }
  if (rows.empty()) return paragraph("No run has recorded where it was made.");
  return html_table("Where the runs were made", {{"what", "", false}, {"value", "", false}}, rows) +
         folds + plugins_table(report);
}

namespace {

std::string unfinished_item(const Report& report, const UnfinishedRun& one) {
  const RunRecord& run = report.run(one);
  const std::string state(name_of(run.status.state));
  std::string out = fmt::format(
      "<li><p><span class=\"state {0}\">{0}</span> <strong>{1}</strong>, seed {2}", state,
      html_text(fmt::format("{} / {}", run.experiment, run.attention)), run.seed);
  if (run.status.steps > 0) {
    out += fmt::format(", step {} of {}", run.status.step, run.status.steps);
  }
  out += "</p>\n";
  if (!run.status.reason.empty()) out += paragraph(html_text(run.status.reason), "reason");
  if (!one.log.empty()) {
    out += folded("The log's last lines",
                  fmt::format("<pre tabindex=\"0\">{}</pre>\n", html_text(one.log)));
  }
  return fmt::format("{}{}</li>\n", out,
                     paragraph(fmt::format("<code>{}</code>", html_text(run.folder)), "folder"));
}

/// Cells of suites that have no run at all.
std::string absent_table(const std::vector<AbsentCell>& cells) {
  if (cells.empty()) return "";
  std::vector<std::vector<HtmlCell>> rows;
  rows.reserve(cells.size());
  for (const AbsentCell& cell : cells) {
    rows.push_back({text_cell(cell.experiment), text_cell(cell.attention),
                    number_cell(std::to_string(cell.seed), static_cast<double>(cell.seed)),
                    text_cell(cell.gap.text())});
  }
  return html_table(
      "Cells without a run",
      {{"experiment", "", false}, {"attention", "", false}, {"seed", "", true}, {"why", "", false}},
      rows);
}

}  // namespace

std::string unfinished_html(const Report& report) {
  std::string out;
  if (report.unfinished.empty()) {
    out = paragraph(fmt::format("All {} runs are done.", report.collection.runs.size()));
  } else {
    out = "<ul class=\"runs\">\n";
    const std::size_t shown = std::min(report.unfinished.size(), kMostUnfinished);
    for (std::size_t i = 0; i < shown; ++i) out += unfinished_item(report, report.unfinished[i]);
    out += "</ul>\n";
    const std::size_t more = report.unfinished.size() - shown;
    if (more > 0) {
      out +=
          paragraph(fmt::format("And {} more: <code>attnlab status</code> and the report's format "
                                "<code>csv</code> have them all.",
                                more));
    }
  }
  return out + absent_table(report.collection.absent);
}

std::string citations_html(const Report& report) {
  std::string out;
  if (!report.citations.empty()) {
    out = "<ul>\n";
    for (const Citation& citation : report.citations) {
      out += fmt::format("<li>{} <small>({})</small></li>\n", html_text(citation.text),
                         html_text(join(citation.plugins, ", ")));
    }
    out += "</ul>\n" + folded("BibTeX", fmt::format("<pre tabindex=\"0\">{}</pre>\n",
                                                    html_text(bibtex_of(report.citations))));
  }
  if (!report.absent_plugins.empty()) {
    out += paragraph(fmt::format(
        "Not installed where this page was made, or not named, so that their citations are not "
        "known: {}.",
        html_text(join(report.absent_plugins, ", "))));
  }
  return out.empty() ? paragraph("The plugins ask for no citation.") : out;
}

}  // namespace attnlab
