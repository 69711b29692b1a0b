// The page: sections that stand without scripts, the data of its charts
// (html_data.cpp), and the page's own style and script beside the plotting
// library, all in one file.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "framework/base/text.h"
#include "framework/comparison/quantities.h"
#include "framework/document/html.h"
#include "framework/document/markup.h"
#include "framework/report/assets.h"
#include "framework/report/diagrams.h"
#include "framework/report/html_parts.h"
#include "framework/report/report.h"
#include "framework/runs/metric_text.h"

namespace attnlab {
namespace {

struct Section {
  std::string id;
  std::string link;   ///< what the navigation calls it
  std::string title;  ///< over it
  std::string html;
};

std::string section_html(const Section& one) {
  return fmt::format(
      "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n"
      "<h2 id=\"{0}-title\">{1}</h2>\n{2}</section>\n",
      one.id, html_text(one.title), one.html);
}

std::string tile(const std::string& number, const std::string& what) {
  return fmt::format("<div class=\"tile\"><dt>{}</dt><dd>{}</dd></div>\n", html_text(what),
                     html_text(number));
}

std::string finding_html(const Report& report) {
  HtmlDocument out;
  const char* style = "lead";
  for (const std::string& sentence : finding_of(report)) {
    out.paragraph_of(std::exchange(style, ""), sentence);
  }
  const std::size_t runs = report.collection.runs.size();
  out.raw(
      fmt::format("<dl class=\"tiles\">\n{}{}{}{}</dl>\n",
                  tile(fmt::format("{} of {}", runs - report.unfinished.size(), runs), "runs done"),
                  tile(std::to_string(report.comparison.attentions.size()), "attentions"),
                  tile(std::to_string(report.comparison.experiments.size()),
                       report.slices.only_points() ? "points" : "experiments"),
                  tile(duration(report.seconds), "of training")));
  out.list(report.comparison.notes);
  return out.take();
}

/// Where points of a grid are too many for a row each.
void write_left_out(const Report& report, HtmlDocument& out) {
  for (const Grid& grid : report.slices.grids) {
    if (grid.apart) continue;
    out.paragraph(fmt::format(
        "The {} points of {} have no rows of their own here: they are pooled below; `attnlab "
        "compare` and the report's formats `csv` and `json` list each of them.",
        grid.points, grid.base));
  }
}

/// Each once.
std::vector<MetricInfo> compared_metrics(const Comparison& comparison) {
  std::vector<MetricInfo> out;
  for (const auto& [experiment, metric] : comparison.metrics) {
    if (std::count(out.begin(), out.end(), metric) == 0) out.push_back(metric);
  }
  return out;
}

void write_differences(const Report& report, HtmlDocument& out) {
  const Comparison& comparison = report.comparison;
  std::vector<std::string> sources;
  for (const PublishedNumbers& one : comparison.published) sources.push_back(one.source);
  for (const MetricInfo& metric : compared_metrics(comparison)) {
    const std::size_t count = differences_in(comparison, metric);
    if (count > kMostDifferences) {
      out.paragraph_of("note", fmt::format("{} differences in {}: too many for a diagram (at most "
                                           "{}); the table below has them.",
                                           count, metric.name, kMostDifferences));
    }
    const std::string diagram = difference_svg(comparison, metric);
    if (diagram.empty()) continue;
    out.figure(
        {diagram, "",
         fmt::format("Mean differences over seeds, with {} % intervals. Filled: significant. "
                     "Open: not.{}",
                     shortest(100 - 100 * comparison.options.level),
                     sources.empty() ? "" : " Crosses: " + join(sources, "; ") + ".")});
  }
}

std::string results_section(const Report& report) {
  HtmlDocument out;
  write_left_out(report, out);
  const std::string rows = results_html(report), metrics = metrics_html(report);
  if (!rows.empty()) {
    write_differences(report, out);
    out.raw(rows);
    out.paragraph_of("note",
                     "Select a heading to sort. Bold: the best mean of its experiment. ▲ "
                     "better, ▼ worse than the baseline, significantly. " +
                         test_sentence(report.comparison));
  }
  if (!metrics.empty()) {
    out.begin_fold("Final metrics");
    out.raw(metrics);
    out.end_fold();
  }
  return out.take();
}

std::string ranks_section(const Report& report) {
  HtmlDocument out;
  const Comparison& comparison = report.comparison;
  write_ranking(comparison, comparison.ranking ? rank_svg(*comparison.ranking) : "", out);
  return out.take();
}

bool has_curves(const Report& report, bool traces) {
  for (const Curve& curve : report.curves) {
    if ((curve.split == "trace") == traces) return true;
  }
  return false;
}

std::string traces_html(const Report& report) {
  std::string out;
  if (has_curves(report, true)) {
    out = chart_box("traces",
                    "One chart per attention, all on one scale; mean over seeds, the band is ± one "
                    "sample standard deviation.");
  }
  if (!report.biases.empty()) {
    out += "<h3>Bias on the logits, by relative position</h3>\n" +
           chart_box(
               "bias",
               "One chart per layer, one line per head, from the last trace of the run: the mean "
               "of what the attention adds to the scaled logit of a key, by its distance after the "
               "query. Seeds are shown separately, because their heads need not match.");
  }
  return !out.empty() ? out
                      : "<p>No run has a trace. <code>trace.every=100</code> records one.</p>\n";
}

/// Nothing where no metric has numbers in its name.
std::string ladders_html(const Report& report) {
  if (report.ladders.empty()) return "";
  return chart_box(
      "ladders",
      "Metrics that were measured at several values of a number, given by an evaluation or by the "
      "task. Mean over the runs that are done, with one sample standard deviation.");
}

std::string curves_section(const Report& report) {
  if (!has_curves(report, false)) return "<p>No run has recorded any.</p>\n";
  return chart_box(
      "curves", fmt::format("Mean over {}; the band is ± one sample standard deviation. Select a "
                            "name in the legend to hide its curve.",
                            report.slices.grids.empty()
                                ? "seeds"
                                : "runs: seeds, and points of a grid where they are pooled"));
}

std::vector<Section> sections_of(const Report& report) {
  std::vector<Section> all = {
      {"finding", "Finding", "Finding", finding_html(report)},
      {"results", "Results", "Results", results_section(report)},
      {"grid", "Grid", "Over the grid", grid_html(report)},
      {"distributions", "Distributions", "Distributions over runs", distributions_html(report)},
      {"classes", "Classes", "Metrics per class", classes_html(report)},
      {"ladders", "By value", "Metrics by value", ladders_html(report)},
      {"curves", "Learning curves", "Learning curves", curves_section(report)},
      {"traces", "Layers", "Inside the layers", traces_html(report)},
      {"graphs", "Graphs", "Graphs and the attention of one node",
       graph_pictures_html(report.graphs)},
      {"clouds", "Clouds", "Clouds and the attention of one point",
       cloud_pictures_html(report.clouds)},
      {"boxes", "Boxes", "Boxes and the attention of one query", box_pictures_html(report.boxes)},
      {"label_maps", "Label maps", "Label maps, answers and their errors",
       label_pictures_html(report.label_maps)},
      {"images", "Images", "Images, explanations of the answers, and changed images",
       image_pictures_html(report.images)},
      {"cost", "Cost", "Quality and cost",
       chart_box("cost",
                 "Mean over runs, with one sample standard deviation. Costs are means over the "
                 "runs that are done.")},
      {"ranks", "Ranks", "Ranks across experiments", ranks_section(report)},
      {"settings", "Settings", "What was compared", settings_html(report)},
      {"unfinished", "Without a value", "Runs without a value", unfinished_html(report)},
      {"environment", "Environment", "Environment", environment_html(report)},
      {"citations", "Citations", "Citations", citations_html(report)}};
  std::erase_if(all, [](const Section& one) { return one.html.empty(); });
  return all;
}

std::string joined(const std::vector<Section>& sections) {
  std::string out;
  for (const Section& one : sections) out += section_html(one);
  return out;
}

std::string navigation(const std::vector<Section>& sections) {
  std::string out;
  for (const Section& one : sections) {
    out += fmt::format("<a href=\"#{}\">{}</a>\n", one.id, html_text(one.link));
  }
  return out;
}

/// Replaces each {{name}} of the template; values are not looked into again.
std::string filled(std::string_view text, const std::map<std::string, std::string>& values) {
  std::string out;
  while (true) {
    const std::size_t open = text.find("{{"), close = text.find("}}", open);
    if (open == std::string_view::npos || close == std::string_view::npos) break;
    out += text.substr(0, open);
    out += values.at(std::string(text.substr(open + 2, close - open - 2)));
    text.remove_prefix(close + 2);
  }
  out += text;
  return out;
}

std::string page_script() {
  std::string out;
  for (const std::string_view part :
       {report_page_js(), report_curves_js(), report_grid_js(), report_start_js()}) {
    out += part;
  }
  return out;
}

}  // namespace

std::string report_html(const Report& report, const std::string& nonce) {
  const std::vector<Section> sections = sections_of(report);
  return filled(report_page_html(), {{"nonce", nonce},
                                     {"title", html_text(report.title)},
                                     {"subtitle", html_text(metric_phrase(report.comparison))},
                                     {"date", html_text(report.date)},
                                     {"command", html_text(report.command)},
                                     {"version", ATTNLAB_VERSION},
                                     {"style", std::string(report_page_css())},
                                     {"navigation", navigation(sections)},
                                     {"sections", joined(sections)},
                                     {"data", chart_data(report)},
                                     {"library", std::string(report_chart_js())},
                                     {"script", page_script()}});
}

}  // namespace attnlab
