#include "framework/report/html_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "framework/base/text.h"
#include "framework/document/html.h"
#include "framework/document/markup.h"

namespace attnlab {
namespace {

constexpr std::size_t kMostValues = 6, kMostConfigurations = 20;

}  // namespace

std::string chart_box(const std::string& id, const std::string& note) {
  return fmt::format(
      "<div class=\"controls\" id=\"{0}-controls\"></div>\n<div class=\"charts\" id=\"{0}-charts\">"
      "<noscript>This chart needs scripts, which are off.</noscript></div>\n"
      "<p class=\"note\">{1}</p>\n",
      id, note);
}

namespace {

// ---- settings

Table options_table(const Report& report) {
  Table table{"The attentions", {"attention", "options"}};
  for (const auto& [label, options] : report.attentions) {
    TableCell name(label);
    if (label == report.comparison.baseline) name.aside = "(baseline)";
    table.rows.push_back({name, {options, kCode}});
  }
  return table;
}

Table experiments_table(const Report& report) {
  Table table{"How the experiments differ", {"setting"}};
  for (const auto& [experiment, value] : report.settings.front().values) {
    table.columns.emplace_back(experiment);
  }
  for (const ExperimentSetting& setting : report.settings) {
    std::vector<TableCell>& row = table.rows.emplace_back(1, TableCell(setting.key, kCode));
    for (const auto& [experiment, value] : setting.values) row.emplace_back(value, kCode);
  }
  return table;
}

/// The axes of each grid.
Table grids_table(const Report& report) {
  Table table{"Keys that the grids vary", {"experiment", "setting", "values"}};
  for (const Grid& grid : report.slices.grids) {
    for (const auto& [axis, values] : grid.axes) {
      table.rows.push_back({grid.base, {axis, kCode}, {join(values, ", "), kCode}});
    }
  }
  return table;
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

void write_configurations(const Report& report, HtmlDocument& out) {
  const std::vector<const RunRecord*> runs = typical_runs(report);
  for (std::size_t i = 0; i < std::min(runs.size(), kMostConfigurations); ++i) {
    const RunRecord& run = *runs[i];
    out.begin_fold(
        fmt::format("All settings of {} ({}, seed {})", run.experiment, run.attention, run.seed));
    out.code(to_yaml(run.config.tree()));
    out.end_fold();
  }
  if (runs.size() > kMostConfigurations) {
    out.paragraph_of("note", "Those of further experiments are in their runs' `config.yaml`.");
  }
}

/// Each value with the runs that have it, where not all do.
std::string values_text(const Fact& fact) {
  std::int64_t runs = 0;
  for (const auto& [value, count] : fact.values) runs += count;
  std::vector<std::string> out;
  for (std::size_t i = 0; i < std::min(fact.values.size(), kMostValues); ++i) {
    const auto& [value, count] = fact.values[i];
    out.push_back(count == runs ? value : fmt::format("{} ({} of {} runs)", value, count, runs));
  }
  const std::size_t more = fact.values.size() - out.size();
  if (more > 0) out.push_back(fmt::format("and {} more values", more));
  return join(out, "\n");
}

Table plugins_table(const Report& report) {
  Table table{"Plugins and the hashes of their files", {"kind", "plugin", "hash", {"runs", true}}};
  for (const PluginUse& plugin : report.plugins) {
    table.rows.push_back(
        {plugin.kind, plugin.id, {plugin.hash, kCode}, std::to_string(plugin.runs)});
  }
  return table;
}

}  // namespace

std::string settings_html(const Report& report) {
  HtmlDocument out(3);
  write_proof(report.comparison, out);
  write_tuning(report.comparison.tuned, out);
  out.table(options_table(report));
  if (!report.slices.grids.empty()) out.table(grids_table(report));
  if (!report.settings.empty()) out.table(experiments_table(report));
  write_configurations(report, out);
  return out.take();
}

std::string environment_html(const Report& report) {
  HtmlDocument folds, out;
  Table table{"Where the runs were made", {"what", "value"}};
  for (const Fact& fact : report.environment) {
    if (fact.values.front().first.find('\n') != std::string::npos) {
      folds.begin_fold(fact.key);
      folds.code(values_text(fact));
      folds.end_fold();
    } else {
      table.rows.push_back({fact.key, values_text(fact)});
    }
  }
  if (table.rows.empty()) {
    out.paragraph("No run has recorded where it was made.");
    return out.take();
  }
  out.table(table);
  out.raw(folds.take());
  out.table(plugins_table(report));
  return out.take();
}

namespace {

void write_unfinished(const Report& report, const UnfinishedRun& one, HtmlDocument& out) {
  const RunRecord& run = report.run(one);
  out.raw(fmt::format(
      "<li><p><span class=\"state {0}\">{0}</span> <strong>{1}</strong>, seed {2}{3}</p>\n",
      name_of(run.status.state), html_text(fmt::format("{} / {}", run.experiment, run.attention)),
      run.seed,
      run.status.steps > 0 ? fmt::format(", step {} of {}", run.status.step, run.status.steps)
                           : ""));
  if (!run.status.reason.empty()) out.paragraph_of("reason", run.status.reason);
  if (!one.log.empty()) {
    out.begin_fold("The log's last lines");
    out.code(one.log);
    out.end_fold();
  }
  out.paragraph_of("folder", "`" + run.folder + "`");
  out.raw("</li>\n");
}

}  // namespace

std::string unfinished_html(const Report& report) {
  HtmlDocument out;
  if (report.unfinished.empty()) {
    out.paragraph(fmt::format("All {} runs are done.", report.collection.runs.size()));
  } else {
    out.raw("<ul class=\"runs\">\n");
    const std::size_t shown = std::min(report.unfinished.size(), kMostUnfinished);
    for (std::size_t i = 0; i < shown; ++i) write_unfinished(report, report.unfinished[i], out);
    out.raw("</ul>\n");
    const std::size_t more = report.unfinished.size() - shown;
    if (more > 0) {
      out.paragraph(fmt::format(
          "And {} more: `attnlab status` and the report's format `csv` have them all.", more));
    }
  }
  Table absent{"Cells without a run", {"experiment", "attention", {"seed", true}, "why"}};
  for (const AbsentCell& cell : report.collection.absent) {
    absent.rows.push_back(
        {cell.experiment, cell.attention, std::to_string(cell.seed), cell.gap.text()});
  }
  if (!absent.rows.empty()) out.table(absent);
  return out.take();
}

std::string citations_html(const Report& report) {
  HtmlDocument out;
  if (!report.citations.empty()) {
    out.list(citation_lines(report));
    out.begin_fold("BibTeX");
    out.code(bibtex_of(report.citations));
    out.end_fold();
  }
  if (!report.absent_plugins.empty()) {
    out.paragraph(fmt::format(
        "Not installed where this page was made, or not named, so that their citations are not "
        "known: {}.",
        join(report.absent_plugins, ", ")));
  }
  if (report.citations.empty() && report.absent_plugins.empty()) {
    out.paragraph("The plugins ask for no citation.");
  }
  return out.take();
}

}  // namespace attnlab
