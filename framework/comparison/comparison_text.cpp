// How people and programs read a comparison.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/comparison/comparison.h"
#include "framework/runs/metric_infos.h"
#include "framework/runs/metric_text.h"

namespace attnlab {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string fixed(double value, int decimals) { return fmt::format("{:.{}f}", value, decimals); }

std::string percent_of_confidence(const Comparison& comparison) {
  return shortest(std::round(1e6 * (1 - comparison.options.level)) / 1e4) + " %";
}

std::string label_of(const Comparison& comparison, const std::string& attention) {
  return attention + (attention == comparison.baseline ? " (baseline)" : "");
}

std::string cost_text(const MetricInfo& cost, double value) {
  if (!metric_unit(cost).empty()) return value_text(cost, value);
  const double size = std::abs(value);  // 0.4 examples a second are not 0
  return fixed(value, size >= 10 || value == std::floor(value) ? 0 : size < 1 ? 4 : 2);
}

std::string seeds_of(const ComparisonRow& row) {
  return fmt::format("{} of {}", row.summary.count, row.seeds.size());
}

std::string evaluation_text(const Comparison& comparison, const ComparisonRow& row,
                            const std::string& name) {
  const auto found = row.evaluations.find(name);
  if (found == row.evaluations.end()) return "-";
  const auto seeds = static_cast<std::int64_t>(row.seeds.size());
  return summary_text(comparison.book.shared(name), found->second) +
         fewer_text(found->second.count, seeds, row.summary.count);
}

Rows value_rows(const Comparison& comparison) {
  const std::vector<MetricInfo> costs = recorded_costs(comparison);
  const auto common = common_metric(comparison);
  Rows rows = {{"experiment", "attention", "seeds", common ? metric_heading(*common) : "value",
                percent_of_confidence(comparison) + " interval"}};
  if (!common) rows[0].insert(rows[0].begin() + 3, "metric");
  for (const PublishedNumbers& published : comparison.published) {
    rows[0].push_back(published.source);
  }
  for (const std::string& name : comparison.evaluations) {
    rows[0].push_back(metric_heading(comparison.book.shared(name)));
  }
  for (const MetricInfo& cost : costs) rows[0].push_back(metric_heading(cost));
  for (const ComparisonRow& row : comparison.rows) {
    std::vector<std::string> line = {row.experiment, label_of(comparison, row.attention),
                                     seeds_of(row)};
    if (!common) line.push_back(metric_heading(row.metric));
    line.push_back(row.gap ? std::string(name_of(row.gap.kind))
                           : summary_text(row.metric, row.summary));
    line.push_back(row.interval ? interval_text(row.metric, *row.interval, row.summary.mean) : "-");
    for (const PublishedNumbers& published : comparison.published) {
      const std::string* value = published.find(row.experiment, row.attention);
      line.push_back(value == nullptr ? "-" : *value);
    }
    for (const std::string& name : comparison.evaluations) {
      line.push_back(evaluation_text(comparison, row, name));
    }
    for (const MetricInfo& cost : costs) {
      const auto found = row.costs.find(cost.name);
      line.push_back(found == row.costs.end() ? "-" : cost_text(cost, found->second));
    }
    rows.push_back(std::move(line));
  }
  return rows;
}

std::string optional_text(const std::optional<double>& value) {
  return value ? fixed(*value, 2) : "-";
}

Rows contrast_rows(const Comparison& comparison) {
  const bool corrected = comparison.options.correct == "holm";
  const auto common = common_metric(comparison);
  Rows rows = {{"experiment", "attention", "pairs",
                common ? difference_heading(*common) : std::string("difference"),
                percent_of_confidence(comparison) + " interval"}};
  for (const PublishedNumbers& published : comparison.published) {
    rows[0].push_back(published.source);
  }
  rows[0].insert(rows[0].end(), {"d_z", "rank-biserial", "p"});
  if (corrected) rows[0].push_back("p (Holm)");
  rows[0].push_back("verdict");
  for (const ComparisonRow& row : comparison.rows) {
    if (!row.contrast) continue;
    const Contrast& contrast = *row.contrast;
    const double like = row.summary.mean;
    std::vector<std::string> line = {row.experiment, row.attention,
                                     std::to_string(contrast.difference.count)};
    line.push_back(
        contrast.difference.count == 0
            ? "-"
            : difference_text(row.metric, contrast.difference.mean, like, contrast.interval));
    line.push_back(contrast.interval ? interval_text(row.metric, *contrast.interval, like) : "-");
    for (const PublishedNumbers& published : comparison.published) {
      const std::string value =
          published.difference(row.experiment, row.attention, comparison.baseline);
      line.push_back(value.empty() ? "-" : value);
    }
    line.push_back(optional_text(contrast.dz));
    line.push_back(optional_text(contrast.rank_biserial));
    line.push_back(contrast.test ? p_text(contrast.test->p_value) : "-");
    if (corrected) line.push_back(contrast.test ? p_text(contrast.adjusted_p) : "-");
    line.push_back(verdict_text(comparison, row));
    rows.push_back(std::move(line));
  }
  return rows;
}

std::string seeds_text(const std::vector<std::int64_t>& seeds) {
  std::vector<std::string> names;
  names.reserve(seeds.size());
  for (const std::int64_t seed : seeds) names.push_back(std::to_string(seed));
  return (seeds.size() == 1 ? "seed " : "seeds ") + join(names, ", ");
}

/// "vit/quest seeds 1, 2: diverged: loss is nan": every value and every test that is not there.
std::vector<std::string> gap_lines(const Comparison& comparison) {
  std::vector<std::string> lines;
  for (const ComparisonRow& row : comparison.rows) {
    const std::string name = fmt::format("{}/{}", row.experiment, row.attention);
    std::vector<std::pair<std::string, std::vector<std::int64_t>>> gaps;
    for (const SeedValue& seed : row.seeds) {
      if (!seed.gap) continue;
      const std::string text = seed.gap.text();
      if (gaps.empty() || gaps.back().first != text) gaps.push_back({text, {}});
      gaps.back().second.push_back(seed.seed);
    }
    for (const auto& [text, seeds] : gaps) {
      lines.push_back(fmt::format("{} {}: {}", name, seeds_text(seeds), text));
    }
    if (row.contrast && row.contrast->gap && !row.gap) {
      lines.push_back(
          fmt::format("{} against {}: {}", name, comparison.baseline, row.contrast->gap.text()));
    }
  }
  return lines;
}

class Page {
 public:
  explicit Page(TableStyle style) : markdown_(style == TableStyle::markdown), style_(style) {}

  void heading(const std::string& text, bool top = false) {
    if (!out_.empty()) out_ += "\n";
    const std::string line = one_line(text, kLongestMessageLine);
    out_ += markdown_ ? fmt::format("{}{}\n\n", top ? "# " : "## ", markdown_line(line))
                      : line + "\n\n";
  }
  /// Our own words, and what is named in them.
  void text(const std::string& text) { out_ += printable(text); }
  void table(const Rows& rows) { out_ += table_text(rows, style_) + "\n"; }
  void list(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      const std::string clean = one_line(line, kLongestMessageLine);
      out_ += fmt::format("- {}\n", markdown_ ? markdown_line(clean) : clean);
    }
  }
  /// Lines whose columns matter.
  void figure(const std::string& text) {
    out_ += markdown_ ? fmt::format("```\n{}```\n", printable(text)) : printable(text);
  }
  std::string take() { return std::move(out_); }

 private:
  bool markdown_;
  TableStyle style_;
  std::string out_;
};

std::vector<std::string> lines_of(const std::vector<ConfigDifference>& differences) {
  std::vector<std::string> lines;
  lines.reserve(differences.size());
  for (const ConfigDifference& one : differences) lines.push_back(one.text());
  return lines;
}

void write_matched(const Comparison& comparison, Page& page) {
  if (comparison.matched.empty()) return;
  page.text(
      "The suite gave each attention a value of its own, as part of it (`match:`, `set:`):\n");
  page.list(lines_of(comparison.matched));
}

void write_proof(const Comparison& comparison, Page& page) {
  write_matched(comparison, page);
  if (comparison.differences.empty()) {
    page.text(fmt::format(
        "The frozen configurations of {} runs agree: within each experiment all {} values outside "
        "`attention`, the data and the other plugins' files are the same.\n",
        comparison.runs, comparison.values));
    return;
  }
  page.heading("NOT A FAIR COMPARISON: the runs differ in more than the attention");
  page.list(lines_of(comparison.differences));
}

std::string ranking_sentence(const Ranking& ranking, double level) {
  const FriedmanResult& test = ranking.test;
  const std::string k = std::to_string(ranking.attentions.size()),
                    n = std::to_string(ranking.experiments.size());
  std::string text =
      fmt::format("{} attentions over {} experiments. Friedman's chi-squared {}, p = {}{}.\n", k, n,
                  fixed(test.chi_squared, 3), p_text(test.p_value()),
                  test.exact_p ? " (exact)" : " (Iman and Davenport's F)");
  if (test.p_value() > level) {
    text += fmt::format(
        "No difference among the attentions is shown at the level {}: read nothing into the order "
        "below.\n",
        shortest(level));
  }
  return text + "\n";
}

void write_ranking(const Comparison& comparison, Page& page) {
  if (comparison.experiments.size() < 2) return;
  page.heading("Ranks across experiments");
  if (comparison.ranking) {
    const Ranking& ranking = *comparison.ranking;
    page.text(ranking_sentence(ranking, comparison.options.level));
    page.figure(
        rank_diagram(ranking.attentions, ranking.test.mean_ranks, ranking.critical_difference));
  } else {
    page.text(fmt::format("None: {}.\n", comparison.no_ranking));
  }
  if (comparison.left_out.empty()) return;
  page.text("\nLeft out:\n");
  page.list(comparison.left_out);
}

}  // namespace

std::vector<MetricInfo> recorded_costs(const Comparison& comparison) {
  std::set<std::string> names;
  for (const ComparisonRow& row : comparison.rows) {
    for (const auto& [name, value] : row.costs) names.insert(name);
  }
  for (const auto& [experiment, metric] : comparison.metrics) names.erase(metric.name);
  std::vector<MetricInfo> costs;
  costs.reserve(names.size());
  for (const std::string& name : names) costs.push_back(comparison.book.shared(name));
  return costs;
}

bool any_shares_of_runs(const Comparison& comparison, const std::vector<std::string>& experiments) {
  return std::any_of(experiments.begin(), experiments.end(), [&](const std::string& one) {
    return is_share_of_runs(comparison.metrics.at(one));
  });
}

std::optional<MetricInfo> common_metric(const Comparison& comparison) {
  std::optional<MetricInfo> common;
  for (const auto& [experiment, metric] : comparison.metrics) {
    if (metric.name.empty()) continue;  // nothing of it is compared
    if (common && !(*common == metric)) return std::nullopt;
    common = metric;
  }
  return common;
}

std::string metric_phrase(const Comparison& comparison) {
  std::map<std::string, std::vector<std::string>> experiments;
  for (const auto& [experiment, metric] : comparison.metrics) {
    if (metric.name.empty()) continue;
    experiments[fmt::format("{} ({})", metric.name, direction_text(metric))].push_back(experiment);
  }
  if (experiments.size() == 1) return experiments.begin()->first;
  std::vector<std::string> parts;
  parts.reserve(experiments.size());
  for (const auto& [phrase, names] : experiments) {
    parts.push_back(fmt::format("{} on {}", phrase, join(names, ", ")));
  }
  return parts.empty() ? comparison.metric : join(parts, ", ");
}

std::string verdict_text(const Comparison& comparison, const ComparisonRow& row) {
  const Contrast& contrast = *row.contrast;
  if (contrast.gap) return std::string(name_of(contrast.gap.kind));
  if (contrast.significant) return row.improves() ? "better" : "worse";
  const bool reachable =
      reach_note(comparison.options, contrast.difference.count, comparison.tests).empty();
  return reachable ? "not shown" : "out of reach";
}

std::string test_sentence(const Comparison& comparison) {
  const std::string& test = comparison.options.test;
  std::string text = test == "t"             ? "Paired t test"
                     : test == "permutation" ? "Sign-flip permutation test of the mean difference"
                                             : "Wilcoxon's signed-rank test";
  text += ", two-sided, pairs by seed";
  bool exact = true;
  for (const ComparisonRow& row : comparison.rows) {
    if (row.contrast && row.contrast->test) exact = exact && row.contrast->test->exact;
  }
  if (test != "t" && comparison.tests > 0) text += exact ? ", exact" : ", partly approximate";
  text += comparison.options.correct == "holm"
              ? fmt::format("; Holm's correction over {} {}", comparison.tests,
                            comparison.tests == 1 ? "comparison" : "comparisons")
              : "; no correction for several comparisons";
  return fmt::format("{}; level {}. Differences are attention minus baseline.\n", text,
                     shortest(comparison.options.level));
}

std::string comparison_text(const Comparison& comparison, TableStyle style) {
  Page page(style);
  page.heading(
      fmt::format("Comparison of {} with {}", metric_phrase(comparison), comparison.baseline),
      true);
  page.table(value_rows(comparison));
  page.text(fmt::format("mean ± sample standard deviation over the seeds that are done{}\n\n",
                        any_shares_of_runs(comparison, comparison.experiments)
                            ? "; shares of runs with Wilson's interval of 95 %"
                            : ""));
  const Rows contrasts = contrast_rows(comparison);
  if (contrasts.size() > 1) {
    page.table(contrasts);
    page.text(test_sentence(comparison));
  }
  write_proof(comparison, page);
  write_ranking(comparison, page);
  const std::vector<std::string> gaps = gap_lines(comparison);
  if (!gaps.empty()) page.heading("What is missing");
  page.list(gaps);
  if (!comparison.notes.empty()) page.heading("Notes");
  page.list(comparison.notes);
  return page.take();
}

}  // namespace attnlab
