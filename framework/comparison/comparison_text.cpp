// How people and programs read a comparison.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/comparison/comparison.h"
#include "framework/comparison/quantities.h"
#include "framework/comparison/tuning_table.h"
#include "framework/runs/metric_infos.h"
#include "framework/runs/metric_text.h"

namespace attnlab {
namespace {

/// Whether two means look the same, with the fewer decimals of the two.
bool looks_equal(const ComparisonRow& a, const ComparisonRow& b) {
  const Quantity left = quantity_of(a.metric, a.summary), right = quantity_of(b.metric, b.summary);
  const int decimals = std::min(left.decimals, right.decimals);
  return decimal(left.value, decimals) == decimal(right.value, decimals);
}

std::string percent_of_confidence(const Comparison& comparison) {
  return shortest(std::round(1e6 * (1 - comparison.options.level)) / 1e4) + " %";
}

/// 0.4 examples a second are not 0, and 205066 parameters have no decimals.
Quantity cost_of(const MetricInfo& cost, double value) {
  if (!metric_unit(cost).empty()) return quantity_of(cost, value);
  const double size = std::abs(value);
  return {.value = value,
          .decimals = size >= 10 || value == std::floor(value) ? 0
                      : size < 1                               ? 4
                                                               : 2};
}

TableCell optional_cell(const std::optional<double>& value) {
  return value ? TableCell(Quantity{.value = *value}) : TableCell();
}

TableCell value_cell(const ComparisonRow& row, const Podium& podium) {
  if (!row.gap) return {quantity_of(row.metric, row.summary), podium.mark(row)};
  TableCell cell(std::string(name_of(row.gap.kind)), kAbsent);
  cell.why = row.gap.text();
  return cell;
}

TableCell interval_cell(const ComparisonRow& row, const std::optional<Interval>& interval) {
  if (!interval) return {};
  TableCell cell(interval_text(row.metric, *interval, row.summary.mean));
  cell.order = interval->low;
  return cell;
}

TableCell verdict_cell(const Comparison& comparison, const ComparisonRow& row) {
  TableCell cell(verdict_text(comparison, row));
  if (row.contrast->significant) cell.marks = row.improves() ? kBetter : kWorse;
  if (row.contrast->gap) cell.why = row.contrast->gap.text();
  return cell;
}

TableCell evaluation_cell(const Comparison& comparison, const ComparisonRow& row,
                          const std::string& name) {
  const auto found = row.evaluations.find(name);
  if (found == row.evaluations.end()) return {};
  const Summary& summary = found->second;
  const auto seeds = static_cast<std::int64_t>(row.seeds.size());
  return quantity_of(comparison.book.shared(name), summary,
                     summary.count == row.summary.count ? 0 : seeds);
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

namespace {

/// "4 comparisons (of 1 attention in 4 settings of 1 experiment)": what a correction counts.
std::string tests_text(const Comparison& comparison) {
  if (comparison.tests == 1) return "1 comparison";
  std::set<std::string> attentions, experiments, settings;
  for (const ComparisonRow& row : comparison.rows) {
    if (!row.contrast || !row.contrast->test) continue;
    attentions.insert(row.attention);
    settings.insert(row.experiment);
    experiments.insert(comparison.setting(row.experiment));
  }
  const auto counted = [](std::size_t count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  std::string text = fmt::format("{} comparisons", comparison.tests);
  if (comparison.tests == 0) return text;
  text += fmt::format(" ({} ", counted(attentions.size(), "attention"));
  text += settings.size() == experiments.size()
              ? "on "
              : fmt::format("in {} of ", counted(settings.size(), "setting"));
  return text + counted(experiments.size(), "experiment") + ")";
}

}  // namespace

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
              ? fmt::format("; Holm's correction over {}", tests_text(comparison))
              : "; no correction for several comparisons";
  return fmt::format("{}; level {}. Differences are attention minus baseline.", text,
                     shortest(comparison.options.level));
}

unsigned Podium::mark(const ComparisonRow& row) const {
  if (row.gap || first == nullptr) return 0;
  return looks_equal(row, *first)                         ? kBest
         : second != nullptr && looks_equal(row, *second) ? kSecond
                                                          : 0;
}

std::map<std::string, Podium> podiums_of(const Comparison& comparison) {
  std::map<std::string, std::vector<const ComparisonRow*>> rows;
  std::map<std::string, Podium> out;
  for (const ComparisonRow& row : comparison.rows) {
    out[row.experiment];
    if (!row.gap) rows[row.experiment].push_back(&row);
  }
  for (auto& [experiment, listed] : rows) {
    std::vector<const ComparisonRow*>& own = listed;  // Clang 14 hands no binding to a lambda
    if (own.size() < 2) continue;                     // the only one is not the best of anything
    const bool higher = comparison.metrics.at(experiment).better == Better::higher;
    std::stable_sort(own.begin(), own.end(), [&](const auto* a, const auto* b) {
      return higher ? a->summary.mean > b->summary.mean : a->summary.mean < b->summary.mean;
    });
    const auto second = std::find_if(own.begin(), own.end(),
                                     [&](const auto* row) { return !looks_equal(*row, *own[0]); });
    out[experiment] = {own[0], second == own.end() ? nullptr : *second};
  }
  return out;
}

void write_values(const Comparison& comparison, const ShownExperiments& shows, Table table,
                  Document& out) {
  const auto common = common_metric(comparison);
  const std::vector<MetricInfo> costs = recorded_costs(comparison);
  table.columns = {"experiment", "attention", {"seeds", true, "seeds that are done, of all"}};
  const auto column = [&](const std::string& heading, const char* help) {
    table.columns.emplace_back(heading, /*number=*/true, help);
  };
  if (!common) table.columns.emplace_back("metric");
  column(common ? metric_heading(*common) : "value",
         "mean ± sample standard deviation over seeds; for a share of runs, Wilson's interval");
  column(percent_of_confidence(comparison) + " interval",
         "of the mean, by Student's distribution; for a share of runs, Wilson's");
  for (const PublishedNumbers& one : comparison.published) column(one.source, "published");
  for (const std::string& name : comparison.evaluations) {
    column(metric_heading(comparison.book.shared(name)),
           "of an evaluation of the finished runs, mean ± sample standard deviation");
  }
  for (const MetricInfo& cost : costs) {
    column(metric_heading(cost), "mean over the runs that are done");
  }
  const std::map<std::string, Podium> podiums = podiums_of(comparison);
  out.begin_table(table);
  for (const ComparisonRow& row : comparison.rows) {
    if (!shows(row.experiment)) continue;
    std::vector<TableCell> cells(1, row.experiment);
    cells.emplace_back(row.attention);
    if (row.attention == comparison.baseline) cells.back().aside = "(baseline)";
    cells.emplace_back(fmt::format("{} of {}", row.summary.count, row.seeds.size()));
    if (!common) cells.emplace_back(metric_heading(row.metric));
    cells.push_back(value_cell(row, podiums.at(row.experiment)));
    cells.push_back(interval_cell(row, row.interval));
    for (const PublishedNumbers& published : comparison.published) {
      const std::string* value = published.find(row.experiment, row.attention);
      cells.push_back(value == nullptr ? TableCell() : TableCell(*value));
    }
    for (const std::string& name : comparison.evaluations) {
      cells.push_back(evaluation_cell(comparison, row, name));
    }
    for (const MetricInfo& cost : costs) {
      const auto found = row.costs.find(cost.name);
      cells.push_back(found == row.costs.end() ? TableCell() : cost_of(cost, found->second));
    }
    out.row(cells);
  }
  out.end_table();
}

bool write_contrasts(const Comparison& comparison, const ShownExperiments& shows, Table table,
                     Document& out) {
  const auto shown = [&](const ComparisonRow& row) {
    return row.contrast && shows(row.experiment);
  };
  if (std::none_of(comparison.rows.begin(), comparison.rows.end(), shown)) return false;
  const bool corrected = comparison.options.correct == "holm";
  const auto common = common_metric(comparison);
  table.columns = {"experiment",
                   "attention",
                   {"pairs", true},
                   {common ? difference_heading(*common) : "difference", true,
                    "to the baseline, over pairs of one seed"},
                   {percent_of_confidence(comparison) + " interval", true}};
  for (const PublishedNumbers& published : comparison.published) {
    table.columns.emplace_back(published.source, true, "published difference to the baseline");
  }
  for (const char* heading : {"d_z", "rank-biserial", "p", "p (Holm)"}) {
    if (corrected || heading[0] != 'p' || heading[1] == 0) {
      table.columns.emplace_back(heading, /*number=*/true);
    }
  }
  table.columns.emplace_back("verdict");
  out.begin_table(table);
  for (const ComparisonRow& row : comparison.rows) {
    if (!shown(row)) continue;
    const Contrast& contrast = *row.contrast;
    std::vector<TableCell> cells(1, row.experiment);
    cells.emplace_back(row.attention);
    cells.emplace_back(std::to_string(contrast.difference.count));
    Quantity difference =
        difference_of(row.metric, contrast.difference.mean, row.summary.mean, contrast.interval);
    difference.interval.reset();  // it has a column
    cells.push_back(contrast.difference.count == 0 ? TableCell() : difference);
    cells.push_back(interval_cell(row, contrast.interval));
    for (const PublishedNumbers& published : comparison.published) {
      const std::string value =
          published.difference(row.experiment, row.attention, comparison.baseline);
      cells.push_back(value.empty() ? TableCell() : TableCell(value));
    }
    cells.push_back(optional_cell(contrast.dz));
    cells.push_back(optional_cell(contrast.rank_biserial));
    cells.push_back(contrast.test ? p_cell(contrast.test->p_value) : TableCell());
    if (corrected) cells.push_back(contrast.test ? p_cell(contrast.adjusted_p) : TableCell());
    cells.push_back(verdict_cell(comparison, row));
    out.row(cells);
  }
  out.end_table();
  return true;
}

std::vector<std::string> difference_lines(const std::vector<ConfigDifference>& differences) {
  std::vector<std::string> lines;
  lines.reserve(differences.size());
  for (const ConfigDifference& one : differences) lines.push_back(one.text());
  return lines;
}

void write_proof(const Comparison& comparison, Document& out, bool joined) {
  if (!comparison.matched.empty()) {
    out.paragraph("The suite set these values for each attention (`match:`, `set:`, `tune:`):",
                  joined);
    out.list(difference_lines(comparison.matched), /*joined=*/true);
  }
  if (comparison.differences.empty()) {
    out.paragraph(fmt::format("The frozen configurations of {} runs agree: within each experiment "
                              "all {} values outside `attention`, the data and the other plugins' "
                              "files are the same.",
                              comparison.runs, comparison.values),
                  joined && comparison.matched.empty());
  } else {
    out.warning(kNotFair);
    out.list(difference_lines(comparison.differences));
  }
}

void write_tuning(const std::vector<TunedAttention>& tuned, Document& out) {
  if (tuned.empty()) return;
  out.table(tuning_table(tuned,
                         "Tries before the seeds, by their scores on the validation split: each "
                         "attention's seeds ran with its best"));
}

void write_ranking(const Comparison& comparison, const std::string& svg, Document& out) {
  if (comparison.ranking) {
    const Ranking& ranking = *comparison.ranking;
    const FriedmanResult& test = ranking.test;
    out.paragraph(fmt::format(
        "{} attentions over {} experiments. Friedman's chi-squared {}, p = {}{}.",
        ranking.attentions.size(), ranking.experiments.size(), decimal(test.chi_squared, 3),
        p_text(test.p_value()), test.exact_p ? " (exact)" : " (Iman and Davenport's F)"));
    if (test.p_value() > comparison.options.level) {
      out.paragraph(fmt::format("No difference among the attentions is significant at the level "
                                "{}: do not interpret the order below.",
                                shortest(comparison.options.level)),
                    /*joined=*/true);
    }
    out.figure(
        {svg, rank_diagram(ranking.attentions, test.mean_ranks, ranking.critical_difference), ""});
  } else {
    out.paragraph(fmt::format("There is no diagram: {}.", comparison.no_ranking));
  }
  if (comparison.left_out.empty()) return;
  out.paragraph("Left out:");
  out.list(comparison.left_out, /*joined=*/true);
}

std::string comparison_title(const Comparison& comparison) {
  return fmt::format("Comparison of {} with {}", metric_phrase(comparison), comparison.baseline);
}

void write_comparison(const Comparison& comparison, Document& out) {
  const auto all = [](const std::string&) { return true; };
  write_values(comparison, all, {}, out);
  out.paragraph(fmt::format("mean ± sample standard deviation over the seeds that are done{}",
                            any_shares_of_runs(comparison, comparison.experiments)
                                ? "; shares of runs with Wilson's interval of 95 %"
                                : ""));
  const bool tested = write_contrasts(comparison, all, {}, out);
  if (tested) out.paragraph(test_sentence(comparison));
  write_proof(comparison, out, /*joined=*/tested);
  if (!comparison.by_example.empty()) out.heading("The same examples");
  write_example_tests(comparison, all, {}, out);
  if (comparison.experiments.size() > 1) {
    out.heading("Ranks across experiments");
    write_ranking(comparison, "", out);
  }
  write_tuning(comparison.tuned, out);
  out.section("What is missing", gap_lines(comparison));
  out.section("Notes", comparison.notes);
}

std::string comparison_text(const Comparison& comparison, TableStyle style) {
  TextDocument out(style);
  out.title(comparison_title(comparison));
  write_comparison(comparison, out);
  return out.take();
}

}  // namespace attnlab
