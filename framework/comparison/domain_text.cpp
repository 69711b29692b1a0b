// The words and numbers of a page over domains.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/base/text.h"
#include "framework/comparison/domains.h"
#include "framework/comparison/quantities.h"
#include "framework/runs/metric_text.h"

namespace attnlab {
namespace {

bool is_baseline(const DomainPage& page, const DomainRow& row) {
  return row.attention == page.baseline;
}

bool is_warning(const std::string& note) { return note.rfind("WARNING", 0) == 0; }

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

TableCell domain_cell(const DomainPage& page, const DomainRow& row, std::size_t column) {
  const DomainCell& cell = row.cells[column];
  const std::string verdict = cell_verdict(page, row, column);
  if (cell.row.summary.count == 0) {
    TableCell out(verdict, kAbsent);
    out.why = cell.row.gap.reason;
    return out;
  }
  TableCell out(quantity_of(cell.row.metric, cell.row.summary));
  if (!is_baseline(page, row)) {
    if (!cell.row.contrast || cell.row.contrast->difference.count == 0) {
      out.text = "mean";
    } else {
      out.number = difference_of(cell.row.metric, cell.row.contrast->difference.mean,
                                 cell.row.summary.mean, cell.row.contrast->interval);
    }
  }
  out.aside = verdict;
  out.note = missing_text(page, row, column);
  out.marks = verdict == "better" ? kBetter : verdict == "worse" ? kWorse : 0;
  return out;
}

std::string cell_text(const DomainPage& page, const DomainRow& row, std::size_t column) {
  TableCell cell = domain_cell(page, row, column);
  cell.aside.clear();
  cell.note.clear();
  return plain(cell);
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

std::vector<std::string> page_warnings(const DomainPage& page) {
  std::vector<std::string> out = page.notes;
  std::erase_if(out, [](const std::string& note) { return !is_warning(note); });
  if (!page.differences.empty()) out.emplace_back(kNotFair);
  return out;
}

std::vector<std::string> plain_notes(const DomainPage& page) {
  std::vector<std::string> out = page.notes;
  std::erase_if(out, is_warning);
  return out;
}

TableCell effect_cell(const DomainRow& row, const std::string& domain) {
  const auto found = row.effects.find(domain);
  if (found == row.effects.end()) return {};
  return Quantity{
      .value = found->second.value, .sign = true, .spread = std::sqrt(found->second.variance)};
}

std::string column_heading(const DomainPage& page, std::size_t column) {
  const MetricInfo& metric = page.metrics[column];
  const std::string unit = difference_unit(metric);
  std::string text = page.columns[column].title;
  if (!metric.name.empty()) {
    text += fmt::format(" ({}{}{})", metric.name, unit.empty() ? "" : ", ", unit);
  }
  return text + arrow_of(metric);
}

std::string column_label(const DomainPage& page, std::size_t column) {
  const PageColumn& one = page.columns[column];
  const std::string heading = column_heading(page, column);
  return one.title == one.domain ? heading : fmt::format("{}: {}", one.domain, heading);
}

TableCell summary_cell(const DomainRow& row) {
  if (!row.summary) return {};
  return Quantity{.value = row.summary->mean, .sign = true, .interval = row.summary->interval};
}

TableCell ratio_cell(const std::optional<double>& ratio) {
  return ratio ? TableCell(Quantity{.value = *ratio}) : TableCell();
}

std::vector<std::string> page_assumptions(const DomainPage& page) {
  const std::string level = shortest(page.options.level);
  const std::string confidence = shortest(100 - 100 * page.options.level);
  std::vector<std::string> out = {
      fmt::format("A cell is the mean difference to {} over seeds that both have, in the column's "
                  "own unit, with its {} % interval (Student's, not corrected, assumes normal "
                  "differences). An arrow shows the better side.",
                  page.baseline, confidence),
      fmt::format("Verdicts come from the paired test '{}'{}: the probability of any false verdict "
                  "in the row of one attention is at most {} if the test's assumptions hold. Over "
                  "several attentions, or several pages, it is higher.",
                  page.options.test,
                  page.options.correct == "holm" ? " with Holm's correction over the row" : "",
                  level)};
  if (std::any_of(page.metrics.begin(), page.metrics.end(), is_share_of_runs)) {
    out.emplace_back(
        "A metric that is 1 or 0 for each run has no interval. It is tested by flipping signs, "
        "which is exact (McNemar's test); with too few seeds to be significant, it is not tested.");
  }
  out.emplace_back(
      "The summary is the mean over domains of standardised differences: each domain's mean gain "
      "over the standard deviation of the gains from seed to seed, corrected for few seeds "
      "(Hedges' g); above 0 is better. It measures a gain relative to the noise of seeds, not its "
      "size. Random-effects model: true effects of domains are normal draws around a common mean; "
      "their variance is DerSimonian and Laird's, the interval Knapp and Hartung's. It assumes "
      "that domains are independent, and counts columns of one domain once. A domain's weight uses "
      "the variance of g without an effect. With three pairs this variance is not finite: then "
      "J²/n is used in every domain of that row, and τ², the scatter beyond the seeds', is mostly "
      "noise of the seeds.");
  out.emplace_back(
      "Ranks are over domains: columns of one domain count once, and an attention with diverged "
      "seeds ranks behind all others. Friedman's test and Nemenyi's critical difference (Demšar "
      "2006) assume independent domains.");
  out.emplace_back(
      "Costs are ratios to the baseline, as geometric means: time and memory over experiments "
      "whose runs were made on one kind of machine, parameters and FLOPs over all.");
  return out;
}

}  // namespace attnlab
