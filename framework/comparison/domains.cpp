#include "framework/comparison/domains.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "framework/base/text.h"
#include "framework/comparison/domain_claims.h"
#include "framework/comparison/domain_effects.h"
#include "framework/comparison/domain_ranking.h"
#include "framework/comparison/metric_choice.h"
#include "framework/runs/metric_text.h"

namespace attnlab {
namespace {

using ByName = std::map<std::string, PageColumn>;

/// Two suites may call columns of other experiments or metrics the same: what differs goes into the
/// later one's title.
PageColumn with_own_name(PageColumn column, const ByName& taken) {
  for (auto other = taken.find(column.name()); other != taken.end();
       other = taken.find(column.name())) {
    const bool elsewhere = other->second.experiment != column.experiment;
    if (!elsewhere && other->second.metric == column.metric) break;
    const bool plain = column.title.empty() || column.title == column.domain;
    column.title = fmt::format("{}({})", plain ? "" : column.title + " ",
                               elsewhere ? column.experiment : column.metric);
  }
  return column;
}

/// The suites' own columns, each once, and their claims.
PageSpec spec_of(const RunCollection& collection, std::vector<std::string>& notes) {
  PageSpec out;
  ByName names;
  for (const SuiteRecord& suite : collection.suites) {
    if (!suite.page) continue;
    if (out.title.empty()) out.title = suite.page->title;
    for (const PageColumn& own : suite.page->columns) {
      const PageColumn column = with_own_name(own, names);
      const auto [known, is_new] = names.emplace(column.name(), column);
      if (is_new) out.columns.push_back(column);
      if (known->second.role == column.role) continue;
      notes.push_back(fmt::format(
          "the column '{}' is of {} in {}, and of {} here, as another suite has it", column.name(),
          name_of(column.role), suite.folder, name_of(known->second.role)));
    }
    out.claims.insert(out.claims.end(), suite.page->claims.begin(), suite.page->claims.end());
  }
  if (!out.columns.empty()) return out;
  out.title = "One attention, every experiment";
  for (const RunRecord& run : collection.runs) {
    const PageColumn column{run.experiment, run.experiment, kHeadline, run.experiment};
    if (names.emplace(run.experiment, column).second) out.columns.push_back(column);
  }
  return out;
}

/// A column that no run has a value of: a row of absences.
ComparisonRow absent_row(const RunCollection& collection, const PageColumn& column,
                         const std::string& attention) {
  ComparisonRow row;
  row.experiment = column.experiment;
  row.attention = attention;
  row.metric.better = Better::neither;  // nothing says which
  row.gap = {Absence::no_run, ""};
  std::set<std::int64_t> seeds;  // a seed counts once: its run says more than a suite's absence
  for (const RunRecord& run : collection.runs) {
    if (run.experiment != column.experiment || run.attention != attention) continue;
    if (!seeds.insert(run.seed).second) continue;
    row.seeds.push_back({run.seed, std::nullopt, run.gap(column.metric)});
    row.gap = row.seeds.back().gap;
  }
  for (const AbsentCell& cell : collection.absent) {
    if (cell.experiment != column.experiment || cell.attention != attention) continue;
    if (!seeds.insert(cell.seed).second) continue;
    row.seeds.push_back({cell.seed, std::nullopt, cell.gap});
    row.gap = cell.gap;
  }
  return row;
}

/// The comparison by each metric that a column names.
using ByMetric = std::map<std::string, Comparison>;

const ComparisonRow* find_row(const ByMetric& all, const PageColumn& column,
                              const std::string& attention) {
  const auto comparison = all.find(column.metric);
  if (comparison == all.end()) return nullptr;
  for (const ComparisonRow& row : comparison->second.rows) {
    if (row.experiment == column.experiment && row.attention == attention) return &row;
  }
  return nullptr;
}

/// Ours less the baseline's, of seeds that both have.
std::vector<double> differences_to_baseline(const ComparisonRow& row,
                                            const ComparisonRow& baseline) {
  std::vector<double> ours, theirs;
  for (std::size_t i = 0; i < row.seeds.size(); ++i) {
    if (!row.seeds[i].value || !baseline.seeds[i].value) continue;
    ours.push_back(*row.seeds[i].value);
    theirs.push_back(*baseline.seeds[i].value);
  }
  return paired_differences(ours, theirs);
}

/// Differences in the better direction; empty without a direction.
std::vector<double> gains_of(const ComparisonRow& row, const ComparisonRow& baseline) {
  if (row.metric.better == Better::neither) return {};
  std::vector<double> gains = differences_to_baseline(row, baseline);
  if (row.metric.better == Better::lower) {
    for (double& gain : gains) gain = -gain;
  }
  return gains;
}

/// Values that are 1 or 0 of each run: Student's test and interval take their differences for
/// normal, and have no answer where all agree. Whether more runs are 1 is asked by flipping signs,
/// which is exact; where so few seeds cannot be significant, by nothing.
void judge_outcomes(ComparisonRow& row, const ComparisonRow& baseline, double level) {
  if (!is_share_of_runs(row.metric) || !row.contrast) return;
  Contrast& contrast = *row.contrast;
  contrast.interval.reset();
  const std::int64_t pairs = contrast.difference.count;
  if (pairs < 2) return;
  if (smallest_p_value(PairedTest::permutation, pairs) > level) {
    contrast.test.reset();
    const std::int64_t fewest = fewest_pairs(PairedTest::permutation, level);
    const std::string needed =
        fewest > pairs ? fmt::format("it takes {} seeds, there are {}", fewest, pairs)
                       : fmt::format("{} seeds cannot reach the level {}", pairs, shortest(level));
    contrast.gap = {Absence::too_few_pairs, "1 or 0 for each run: " + needed};
    return;
  }
  contrast.test = sign_flip(differences_to_baseline(row, baseline));
  contrast.gap = {};
}

/// Stored runs of each experiment and attention.
using Stored = std::map<std::pair<std::string, std::string>, std::int64_t>;

Stored stored_runs(const RunCollection& collection) {
  Stored out;
  for (const RunRecord& run : collection.runs) {
    if (!run.stored.empty()) ++out[{run.experiment, run.attention}];
  }
  return out;
}

/// @param baseline  its cell; null for the baseline itself
DomainCell cell_of(const RunCollection& collection, const ByMetric& all, const PageColumn& column,
                   const std::string& attention, const DomainCell* baseline, double level) {
  DomainCell cell;
  const ComparisonRow* row = find_row(all, column, attention);
  cell.row = row == nullptr ? absent_row(collection, column, attention) : *row;
  for (const SeedValue& seed : cell.row.seeds) {
    cell.diverged += seed.gap.kind == Absence::diverged ? 1 : 0;
  }
  if (baseline != nullptr) cell.baseline_diverged = baseline->diverged;
  if (row == nullptr || baseline == nullptr) return cell;
  judge_outcomes(cell.row, baseline->row, level);
  // Seeds that diverged are part of the finding: the survivors alone would flatter the attention
  // or the baseline.
  if (cell.whole()) cell.effect = standardised_effect(gains_of(*row, baseline->row));
  return cell;
}

/// Holm over the row: the level is the chance of any false verdict about this attention. Cells with
/// seeds that diverged have no verdict of a test.
void correct(DomainRow& row, const CompareOptions& options) {
  std::vector<Contrast*> tested;
  std::vector<double> p_values;
  for (DomainCell& cell : row.cells) {
    if (cell.row.contrast) cell.row.contrast->significant = false;
    if (!cell.is_tested()) continue;
    tested.push_back(&*cell.row.contrast);
    p_values.push_back(cell.row.contrast->test->p_value);
  }
  if (options.correct == "holm") p_values = holm(p_values);
  for (std::size_t i = 0; i < tested.size(); ++i) {
    tested[i]->adjusted_p = p_values[i];
    tested[i]->significant = p_values[i] <= options.level;
  }
}

/// Attentions of any experiment that a column shows, the baseline first.
std::vector<std::string> attentions_of(const RunCollection& collection, const Comparison& any) {
  std::vector<std::string> out = any.attentions;
  for (const AbsentCell& cell : collection.absent) {
    if (std::count(out.begin(), out.end(), cell.attention) == 0) out.push_back(cell.attention);
  }
  return out;
}

/// Of its runs that are done.
AttentionCosts costs_of(const RunCollection& collection, const std::string& attention) {
  AttentionCosts costs;
  for (const RunRecord& run : collection.runs) {
    if (run.attention != attention || !run.done()) continue;
    costs[run.experiment].push_back({&run.costs, cost_conditions(run.environment)});
  }
  return costs;
}

/// Metrics that some run has; the others' columns are absent.
bool is_recorded(const RunCollection& collection, const std::string& metric) {
  return std::any_of(collection.runs.begin(), collection.runs.end(), [&](const RunRecord& run) {
    return run.done() && run.status.metrics.count(metric) > 0;
  });
}

/// Those of one metric, an evaluation's settings for instance, may be no other's.
void take_differences(const Comparison& comparison, DomainPage& page) {
  for (const ConfigDifference& one : comparison.differences) {
    const bool known =
        std::any_of(page.differences.begin(), page.differences.end(),
                    [&](const ConfigDifference& other) { return other.text() == one.text(); });
    if (!known) page.differences.push_back(one);
  }
}

/// The same by another metric. Which values are better was said of the options' own.
CompareOptions options_by(const std::string& metric, const CompareOptions& options) {
  CompareOptions own = options;
  own.metric = metric;
  if (metric != options.metric) own.better = "auto";
  return own;
}

void take_notes(const Comparison& comparison, DomainPage& page) {
  for (const std::string& note : comparison.notes) {
    // How many seeds it takes is said of another family of tests there.
    if (note.find("nothing can be significant") != std::string::npos) continue;
    if (note.starts_with("not compared: ")) continue;  // the columns say what is absent of them
    page.notes.push_back(note);
  }
  std::stable_partition(page.notes.begin(), page.notes.end(),
                        [](const std::string& note) { return note.rfind("WARNING", 0) == 0; });
}

}  // namespace

const DomainRow& DomainPage::row(const std::string& attention) const {
  for (const DomainRow& one : rows) {
    if (one.attention == attention) return one;
  }
  std::vector<std::string> names;
  names.reserve(rows.size());
  for (const DomainRow& one : rows) names.push_back(one.attention);
  throw ConfigError(
      fmt::format("no run has the attention '{}'{}", attention, suggestion(attention, names)));
}

DomainPage build_domain_page(const RunCollection& collection, const CompareOptions& options,
                             const std::string& baseline, const Catalogue* catalogue) {
  DomainPage page;
  const PageSpec spec = spec_of(collection, page.notes);
  const auto compared_by = [&](const std::string& metric, const std::string& with) {
    return compare_runs(collection, options_by(metric, options), with, catalogue);
  };
  ByMetric all;
  const Comparison& headline =
      all.emplace(kHeadline, compared_by(kHeadline, baseline)).first->second;
  for (const PageColumn& column : spec.columns) {
    if (all.count(column.metric) > 0 || !is_recorded(collection, column.metric)) continue;
    all.emplace(column.metric, compared_by(column.metric, headline.baseline));
  }
  page.title = spec.title;
  page.baseline = headline.baseline;
  page.options = options;
  page.columns = spec.columns;
  page.experiments = headline.experiments;
  page.tuned = headline.tuned;
  take_differences(headline, page);
  for (const auto& [metric, comparison] : all) take_differences(comparison, page);
  take_notes(headline, page);
  const Stored stored = stored_runs(collection);
  const AttentionCosts baseline_costs = costs_of(collection, page.baseline);
  for (const std::string& attention : attentions_of(collection, headline)) {
    DomainRow row;
    row.attention = attention;
    for (const PageColumn& column : page.columns) {
      const DomainCell* baseline =
          page.rows.empty() ? nullptr : &page.rows.front().cells[row.cells.size()];
      row.cells.push_back(cell_of(collection, all, column, attention, baseline, options.level));
      const auto found = stored.find({column.experiment, attention});
      row.cells.back().stored = found == stored.end() ? 0 : found->second;
    }
    correct(row, options);
    if (attention != page.baseline) {
      add_effects(page, row);
      row.costs = cost_ratios(costs_of(collection, attention), baseline_costs);
    }
    page.rows.push_back(std::move(row));
  }
  for (std::size_t i = 0; i < page.columns.size(); ++i) {
    page.metrics.push_back(page.rows.front().cells[i].row.metric);
  }
  add_domain_ranking(page);
  add_claims(spec.claims, collection, page);
  return page;
}

}  // namespace attnlab
