// The words and numbers of a page over domains.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/base/text.h"
#include "framework/comparison/domains.h"
#include "framework/runs/metric_text.h"

namespace attnlab {
namespace {

bool is_baseline(const DomainPage& page, const DomainRow& row) {
  return row.attention == page.baseline;
}

/// "2 of 3 diverged", "standard: 3 of 3 diverged", or both.
std::string divergence_text(const DomainPage& page, const DomainCell& cell, std::size_t column) {
  std::vector<std::string> parts;
  const auto add = [&](const std::string& who, std::int64_t diverged, std::int64_t of) {
    if (diverged > 0) parts.push_back(fmt::format("{}{} of {} diverged", who, diverged, of));
  };
  add("", cell.diverged, cell.own_seeds());
  add(page.baseline + ": ", cell.baseline_diverged, page.rows.front().cells[column].own_seeds());
  return join(parts, "; ");
}

}  // namespace

std::string cell_text(const DomainPage& page, const DomainRow& row, std::size_t column) {
  const DomainCell& cell = row.cells[column];
  if (cell.row.summary.count == 0) return std::string(name_of(cell.row.gap.kind));
  if (is_baseline(page, row)) return summary_text(cell.row.metric, cell.row.summary);
  if (!cell.row.contrast || cell.row.contrast->difference.count == 0) {
    return "mean " + summary_text(cell.row.metric, cell.row.summary);
  }
  const Contrast& contrast = *cell.row.contrast;
  const double like = cell.row.summary.mean;
  std::string text =
      difference_text(cell.row.metric, contrast.difference.mean, like, contrast.interval);
  if (contrast.interval) text += " " + interval_text(cell.row.metric, *contrast.interval, like);
  return text;
}

std::string cell_verdict(const DomainPage& page, const DomainRow& row, std::size_t column) {
  const DomainCell& cell = row.cells[column];
  if (cell.is_missing()) return std::string(name_of(cell.row.gap.kind));
  if (!cell.whole()) return divergence_text(page, cell, column);
  if (is_baseline(page, row)) return "";
  if (!cell.row.contrast) return "no run";
  const Contrast& contrast = *cell.row.contrast;
  if (!contrast.test) return std::string(name_of(contrast.gap.kind));
  if (contrast.significant) return cell.row.improves() ? "better" : "worse";
  std::int64_t tests = 0;
  for (const DomainCell& one : row.cells) {
    tests += one.is_tested() ? 1 : 0;
  }
  CompareOptions options = page.options;
  if (is_share_of_runs(cell.row.metric)) options.test = name_of(PairedTest::permutation);
  const bool reachable = reach_note(options, contrast.difference.count, tests).empty();
  return reachable ? "not shown" : "out of reach";
}

std::string cell_line(const DomainPage& page, const DomainRow& row, std::size_t column) {
  const std::string verdict = cell_verdict(page, row, column);
  const std::string missing = missing_text(page, row, column);
  std::string text = cell_text(page, row, column);
  if (!verdict.empty() && verdict != text) text += " " + verdict;
  return missing.empty() ? text : text + "; " + missing;
}

std::string missing_text(const DomainPage& page, const DomainRow& row, std::size_t column) {
  const ComparisonRow& own = row.cells[column].row;
  if (own.summary.count == 0) return "";
  const ComparisonRow& baseline = page.rows.front().cells[column].row;
  const bool paired = own.contrast && own.contrast->difference.count > 0;
  const auto is_missing = [](const SeedValue& seed) {
    return !seed.value && seed.gap.kind != Absence::diverged;
  };
  std::size_t missing = 0;
  for (std::size_t i = 0; i < own.seeds.size(); ++i) {
    const bool here = is_missing(own.seeds[i]);
    const bool there = paired && own.seeds[i].value && is_missing(baseline.seeds[i]);
    missing += here || there ? 1 : 0;
  }
  return missing == 0 ? "" : fmt::format("{} of {} missing", missing, own.seeds.size());
}

std::vector<std::string> page_absences(const DomainPage& page) {
  std::vector<AbsentCell> cells;
  for (std::size_t i = 0; i < page.columns.size(); ++i) {
    for (const DomainRow& row : page.rows) {
      for (const SeedValue& seed : row.cells[i].row.seeds) {
        if (seed.value || !seed.gap) continue;
        cells.push_back({page.columns[i].name(), row.attention, seed.seed, seed.gap, ""});
      }
    }
  }
  return absence_lines(cells);
}

std::vector<std::string> quality_domains(const DomainPage& page) {
  std::vector<std::string> out;
  for (const PageColumn& column : page.columns) {
    const bool known = std::find(out.begin(), out.end(), column.domain) != out.end();
    if (column.role == ColumnRole::quality && !known) out.push_back(column.domain);
  }
  return out;
}

std::string effect_text(const DomainRow& row, const std::string& domain) {
  const auto found = row.effects.find(domain);
  if (found == row.effects.end()) return "-";
  return fmt::format("{:+.2f} ± {:.2f}", found->second.value, std::sqrt(found->second.variance));
}

std::string column_heading(const DomainPage& page, std::size_t column) {
  const MetricInfo& metric = page.metrics[column];
  const std::string unit = difference_unit(metric);
  std::string text = page.columns[column].title;
  if (!metric.name.empty()) {
    text += fmt::format(" ({}{}{})", metric.name, unit.empty() ? "" : ", ", unit);
  }
  if (metric.better == Better::neither) return text;
  return text + (metric.better == Better::higher ? " ↑" : " ↓");
}

std::string column_label(const DomainPage& page, std::size_t column) {
  const PageColumn& one = page.columns[column];
  const std::string heading = column_heading(page, column);
  return one.title == one.domain ? heading : fmt::format("{}: {}", one.domain, heading);
}

std::string summary_cell_text(const DomainRow& row) {
  if (!row.summary) return "-";
  const RandomEffects& summary = *row.summary;
  return fmt::format("{:+.2f} [{:.2f}, {:.2f}]", summary.mean, summary.interval->low,
                     summary.interval->high);
}

std::string ratio_text(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:.2f}", *ratio) : "-";
}

std::vector<std::string> page_assumptions(const DomainPage& page) {
  const std::string level = shortest(page.options.level);
  const std::string confidence = shortest(100 - 100 * page.options.level);
  std::vector<std::string> out = {
      fmt::format("A cell is the mean difference to {} over seeds that both have, in the column's "
                  "own unit, with its {} % interval (Student's, not corrected, differences taken "
                  "for normal). An arrow shows the better side.",
                  page.baseline, confidence),
      fmt::format("Verdicts are of the paired test '{}'{}: the chance of any false verdict in the "
                  "row of one attention is at most {} where the test's assumptions hold. Over "
                  "several attentions, or several pages, it is more.",
                  page.options.test,
                  page.options.correct == "holm" ? " with Holm's correction over the row" : "",
                  level)};
  if (std::any_of(page.metrics.begin(), page.metrics.end(), is_share_of_runs)) {
    out.emplace_back(
        "What is 1 or 0 of each run has no interval, and is tested by flipping signs, which is "
        "exact (McNemar's test); where its seeds are too few to be significant by that at all, it "
        "is not tested.");
  }
  out.emplace_back(
      "The summary is the mean over domains of standardised differences: each domain's mean gain "
      "over the standard deviation of the gains from seed to seed, corrected for few seeds "
      "(Hedges' g); above 0 is better. It measures how far a gain stands out of the seeds' noise, "
      "not how large it is. Model: true effects of domains are normal draws about a common mean; "
      "their variance is DerSimonian and Laird's, the interval Knapp and Hartung's. It takes "
      "domains for independent draws, and columns of one domain for one. A domain's weight is the "
      "variance of g where there is no effect, which is not finite with three pairs: J²/n stands "
      "for it then, in every domain of that row, and τ², the scatter beyond the seeds', is mostly "
      "noise of the seeds.");
  out.emplace_back(
      "Ranks are of domains: columns of one domain count as one, an attention with diverged seeds "
      "stands behind all without. Friedman's test and Nemenyi's critical difference (Demšar 2006) "
      "take domains for independent.");
  out.emplace_back(
      "Time and memory are ratios to the baseline over experiments whose runs were made on one "
      "kind of machine, parameters and FLOPs over all; geometric means.");
  return out;
}

}  // namespace attnlab
