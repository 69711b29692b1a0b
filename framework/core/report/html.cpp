// The page: sections that stand without scripts, the data of its charts, and the page's own style
// and script beside the plotting library, all in one file.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "framework/core/progress.h"
#include "framework/core/report/assets.h"
#include "framework/core/report/diagrams.h"
#include "framework/core/report/html_parts.h"
#include "framework/core/report/markup.h"
#include "framework/core/report/report.h"
#include "framework/core/table.h"
#include "framework/core/text.h"

namespace attnlab {
namespace {

using nlohmann::json;

/// Five digits are more than a chart shows, and a third of the bytes.
double rounded(double value, const char* format = "%.5g") {
  char text[48];
  std::snprintf(text, sizeof text, format, value);
  return std::strtod(text, nullptr);
}

json rounded(const std::vector<double>& values, const char* format = "%.5g") {
  json out = json::array();
  for (const double value : values) out.push_back(rounded(value, format));
  return out;
}

// ---- what the charts draw

/// Indices instead of names, and each list of steps once.
class ChartData {
 public:
  explicit ChartData(const Report& report) : report_(report) {
    number(report.comparison.experiments, experiments_);
    number(report.comparison.attentions, attentions_);
  }

  json make() {
    json out = {{"metric", report_.comparison.metric},
                {"baseline", report_.comparison.baseline},
                {"experiments", report_.comparison.experiments},
                {"attentions", report_.comparison.attentions},
                {"curves", json::array()},
                {"biases", json::array()},
                {"costs", json::array()},
                {"points", points()}};
    for (const Curve& curve : report_.curves) out["curves"].push_back(curve_json(curve));
    for (const BiasFigure& bias : report_.biases) out["biases"].push_back(bias_json(bias));
    for (const std::string& cost : costs_) {
      out["costs"].push_back(
          {{"name", cost}, {"heading", metric_heading(cost)}, {"scale", metric_scale(cost)}});
    }
    out["steps"] = std::move(steps_);
    out["metrics"] = metrics_;
    return out;
  }

 private:
  using Numbers = std::map<std::string, std::size_t>;

  static void number(const std::vector<std::string>& names, Numbers& out) {
    for (const std::string& name : names) out.emplace(name, out.size());
  }

  json curve_json(const Curve& curve) {
    json steps = rounded(curve.steps, "%.8g");
    const auto [found, is_new] = step_lists_.emplace(steps.dump(), steps_.size());
    if (is_new) steps_.push_back(std::move(steps));
    add_metric(curve.metric);
    json out = {{"e", experiments_.at(curve.experiment)},
                {"a", attentions_.at(curve.attention)},
                {"split", curve.split},
                {"metric", curve.metric},
                {"x", found->second},
                {"y", rounded(curve.mean)}};
    if (!curve.layer.empty()) out["layer"] = curve.layer;
    std::int64_t most = 0;
    for (const std::int64_t seeds : curve.seeds) most = std::max(most, seeds);
    out["n"] = most;
    if (most > 1) out["sd"] = rounded(curve.deviation, "%.3g");
    return out;
  }

  json bias_json(const BiasFigure& bias) const {
    json heads = json::array();
    for (const std::vector<double>& head : bias.heads) {
      json& row = heads.emplace_back(json::array());
      for (const double value : head) {
        row.push_back(std::isfinite(value) ? json(rounded(value)) : json());
      }
    }
    return {{"e", experiments_.at(bias.experiment)},
            {"a", attentions_.at(bias.attention)},
            {"seed", bias.seed},
            {"step", bias.step},
            {"layer", bias.layer},
            {"first", bias.first},
            {"heads", std::move(heads)}};
  }

  void add_metric(const std::string& name) {
    metrics_[name] = {{"heading", metric_heading(name)}, {"scale", metric_scale(name)}};
  }

  json points() {
    add_metric(report_.comparison.metric);
    json out = json::array();
    for (const ComparisonRow& row : report_.comparison.rows) {
      if (row.gap || row.costs.empty()) continue;
      json costs = json::object();
      for (const auto& [name, value] : row.costs) {
        if (name == report_.comparison.metric) continue;
        costs[name] = rounded(value, "%.7g");
        costs_.insert(name);
      }
      out.push_back({{"e", experiments_.at(row.experiment)},
                     {"a", attentions_.at(row.attention)},
                     {"y", rounded(row.summary.mean)},
                     {"sd", rounded(row.summary.deviation)},
                     {"n", row.summary.count},
                     {"costs", costs}});
    }
    return out;
  }

  const Report& report_;
  Numbers experiments_, attentions_;
  std::map<std::string, std::size_t> step_lists_;
  std::set<std::string> costs_;
  json steps_ = json::array(), metrics_ = json::object();
};

// ---- sections

std::string section(const std::string& id, const std::string& title, const std::string& html) {
  return "<section id=\"" + id + "\" aria-labelledby=\"" + id + "-title\">\n<h2 id=\"" + id +
         "-title\">" + html_text(title) + "</h2>\n" + html + "</section>\n";
}

/// A box that the script fills; without scripts it says so.
std::string chart(const std::string& id, const std::string& note) {
  return "<div class=\"controls\" id=\"" + id + "-controls\"></div>\n<div class=\"charts\" id=\"" +
         id + "-charts\"><noscript>This chart needs scripts, which are off.</noscript></div>\n" +
         "<p class=\"note\">" + note + "</p>\n";
}

std::string tile(const std::string& number, const std::string& what) {
  return "<div class=\"tile\"><dt>" + html_text(what) + "</dt><dd>" + html_text(number) +
         "</dd></div>\n";
}

std::string finding_html(const Report& report) {
  const std::vector<std::string> sentences = finding_of(report);
  std::string out = "<p class=\"lead\">" + html_text(sentences.front()) + "</p>\n";
  for (std::size_t i = 1; i < sentences.size(); ++i) {
    out += "<p>" + html_text(sentences[i]) + "</p>\n";
  }
  const std::size_t runs = report.collection.runs.size();
  out += "<dl class=\"tiles\">\n" +
         tile(std::to_string(runs - report.unfinished.size()) + " of " + std::to_string(runs),
              "runs done") +
         tile(std::to_string(report.comparison.attentions.size()), "attentions") +
         tile(std::to_string(report.comparison.experiments.size()), "experiments") +
         tile(duration(report.seconds), "of training") + "</dl>\n";
  if (report.comparison.notes.empty()) return out;
  out += "<ul class=\"notes\">\n";
  for (const std::string& note : report.comparison.notes) {
    out += "<li>" + html_text(note) + "</li>\n";
  }
  return out + "</ul>\n";
}

std::string results_section(const Report& report) {
  const std::string diagram = difference_svg(report.comparison);
  std::string out;
  if (!diagram.empty()) {
    out += "<figure class=\"scroll\" tabindex=\"0\">" + diagram +
           "<figcaption>Mean differences over seeds, with " +
           shortest(100 - 100 * report.comparison.options.level) +
           " % intervals. Filled: significant. Open: not.</figcaption></figure>\n";
  }
  out += results_html(report) +
         "<p class=\"note\">Select a heading to sort. Bold: the best mean of its experiment. ▲ "
         "better, ▼ worse than the baseline, significantly. " +
         html_text(test_sentence(report.comparison)) + "</p>\n";
  const std::string metrics = metrics_html(report);
  if (!metrics.empty()) {
    out += "<details><summary>All final metrics</summary>\n" + metrics + "</details>\n";
  }
  return section("results", "Results", out);
}

std::string ranks_section(const Comparison& comparison) {
  std::string out;
  if (comparison.ranking) {
    const Ranking& ranking = *comparison.ranking;
    out += "<figure class=\"scroll\" tabindex=\"0\">" + rank_svg(ranking) +
           "<figcaption>Mean ranks over " + std::to_string(ranking.experiments.size()) +
           " experiments; 1 is best. A bar joins attentions whose ranks differ by less than "
           "Nemenyi's critical difference (CD): they are not told apart. Friedman's test: " +
           html_text(p_phrase(ranking.test.p_value())) + ".</figcaption></figure>\n";
    if (ranking.test.p_value() > comparison.options.level) {
      out += "<p>Friedman's test shows no difference: read nothing into this order.</p>\n";
    }
  } else {
    out += "<p>There is no diagram: " + html_text(comparison.no_ranking) + ".</p>\n";
  }
  if (!comparison.left_out.empty()) {
    out += "<p>Left out: " + html_text(join(comparison.left_out, "; ")) + ".</p>\n";
  }
  return section("ranks", "Ranks across experiments", out);
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
    out = chart("traces",
                "One chart an attention; mean over seeds, the band is ± one sample standard "
                "deviation, on one scale.");
  }
  if (!report.biases.empty()) {
    out += "<h3>Bias on the logits, by relative position</h3>\n" +
           chart("bias",
                 "One chart a layer, one line a head, as the last trace of the run has it: the "
                 "mean of what the attention adds to the scaled logit of a key so many places "
                 "after the query. Seeds stand apart, because their heads need not match.");
  }
  if (!out.empty()) return out;
  return "<p>No run has a trace. <code>trace.every=100</code> records one.</p>\n";
}

std::string charts_sections(const Report& report) {
  const std::string none = "<p>No run has recorded any.</p>\n";
  return section("curves", "Learning curves",
                 has_curves(report, false)
                     ? chart("curves",
                             "Mean over seeds; the band is ± one sample standard "
                             "deviation. Select a name in the legend to hide its curve.")
                     : none) +
         section("traces", "Inside the layers", traces_html(report)) +
         section("cost", "Against cost",
                 chart("cost",
                       "Mean over seeds, with one sample standard deviation. Costs are "
                       "means over the runs that are done."));
}

std::string sections_of(const Report& report) {
  return section("finding", "Finding", finding_html(report)) + results_section(report) +
         charts_sections(report) + ranks_section(report.comparison) +
         section("settings", "What was compared", settings_html(report)) +
         section("unfinished", "Runs without a value", unfinished_html(report)) +
         section("environment", "Environment", environment_html(report)) +
         section("citations", "To cite", citations_html(report));
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

}  // namespace

std::string report_html(const Report& report, const std::string& nonce) {
  const Comparison& comparison = report.comparison;
  return filled(
      report_page_html(),
      {{"nonce", nonce},
       {"title", html_text(report.title)},
       {"subtitle", html_text(comparison.metric + ", " +
                              (comparison.higher_is_better ? "higher" : "lower") + " is better")},
       {"date", html_text(report.date)},
       {"command", html_text(report.command)},
       {"version", ATTNLAB_VERSION},
       {"style", std::string(report_page_css())},
       {"sections", sections_of(report)},
       {"data", script_json(ChartData(report).make())},
       {"library", std::string(report_chart_js())},
       {"script", std::string(report_page_js())}});
}

}  // namespace attnlab
