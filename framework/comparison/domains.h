// One attention, every domain: what each attention's difference to the baseline is in each domain's
// own unit, and what they say together.
//
//   a cell       difference of paired seeds, interval, test; Holm's correction over an attention's
//                row, so that the level is the chance of any false verdict about one attention
//   cost         ratios to the baseline's, geometric means over experiments
//   ranks        of domains (columns of one domain count as one): Friedman, Nemenyi
//   summary      standardised differences of the domains, random effects over them
//   claims       what publications say, and whether it holds here
//
// docs/cross_domain.md says how to read it and what it takes for granted.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/comparison/comparison.h"
#include "framework/comparison/random_effects.h"
#include "framework/costs/ratios.h"
#include "framework/runs/page_spec.h"

namespace attnlab {

/// An attention in a column.
struct DomainCell {
  ComparisonRow row;          ///< as `compare_runs` has it; its p-values are corrected over the row
  std::int64_t diverged = 0;  ///< seeds that diverged: a result, not an absence
  std::int64_t baseline_diverged = 0;  ///< the baseline's, in a cell of another attention
  std::int64_t stored = 0;             ///< runs that are stored results
  std::optional<Effect> effect;        ///< standardised; above 0 is better than the baseline

  /// Seeds that this attention ran: what a share of diverged ones is of. (A row also has the seeds
  /// of the other attentions.)
  std::int64_t own_seeds() const {
    return std::count_if(row.seeds.begin(), row.seeds.end(), [](const SeedValue& seed) {
      switch (seed.gap.kind) {
        case Absence::no_run:
        case Absence::pending:
        case Absence::skipped:
        case Absence::incompatible:
        case Absence::no_data:
        case Absence::no_plugin:
          return false;
        default:
          return true;
      }
    });
  }
  /// Seeds are still to end: what is left may show another thing.
  bool is_waiting() const {
    return std::any_of(row.seeds.begin(), row.seeds.end(), [](const SeedValue& seed) {
      const Absence kind = seed.gap.kind;
      return kind == Absence::pending || kind == Absence::running || kind == Absence::interrupted;
    });
  }
  /// No seed diverged, here and of the baseline: the difference is of all, not of survivors.
  bool whole() const { return diverged == 0 && baseline_diverged == 0; }
  /// No value, and not because seeds diverged.
  bool is_missing() const { return diverged == 0 && row.gap; }
  /// Whether its verdict is that of a test.
  bool is_tested() const { return whole() && row.contrast && row.contrast->test; }
};

struct DomainRow {
  std::string attention;
  std::vector<DomainCell> cells;  ///< one per column
  CostRatios costs;
  std::map<std::string, Effect> effects;  ///< by domain, of quality columns
  bool rough = false;                     ///< some are of three pairs; then all variances are rough
  std::optional<RandomEffects> summary;   ///< over them; from two domains on
  std::vector<std::string> without_effect;  ///< "points: diverged": domains that it leaves out
  /// The column in which most seeds diverged; else one in which every pair loses the same; else
  /// with a verdict "worse"; else that of the lowest standardised difference. Losses of fewer than
  /// three pairs, which have none, stand below gains, by their share of the baseline's value.
  std::optional<std::size_t> worst;
};

/// Whether a publication's claim holds here.
struct ClaimCheck {
  PageClaim claim;
  enum class Outcome { holds, contradicted, not_shown, not_tested } outcome = Outcome::not_tested;
  std::string found;  ///< "+0.86 [0.21, 1.51]", or why there is nothing
};
/// "holds", "contradicted", "not shown", "not tested".
std::string_view name_of(ClaimCheck::Outcome outcome);

struct DomainPage {
  std::string title, baseline;
  CompareOptions options;
  std::vector<PageColumn> columns;
  std::vector<MetricInfo> metrics;  ///< of the columns
  std::vector<DomainRow> rows;      ///< the baseline first
  std::optional<Ranking> ranking;   ///< its `experiments` are domains
  std::string no_ranking;
  std::vector<std::string> left_out;  ///< attentions and domains that the ranking leaves out
  std::vector<ClaimCheck> claims;
  std::vector<TunedAttention> tuned;          ///< how the suites' `tune:` chose values
  std::vector<ConfigDifference> differences;  ///< why the comparison is not fair; empty: it is
  std::vector<std::string> notes;             ///< warnings first
  std::vector<std::string> experiments;       ///< every one that was compared

  const DomainRow& row(const std::string& attention) const;
};

/// Columns and claims are those of the suites' `page:`; without one each experiment is a column and
/// a domain of its own.
/// @param catalogue  as in `compare_runs`
/// @throws ConfigError as `compare_runs` does.
DomainPage build_domain_page(const RunCollection& collection, const CompareOptions& options,
                             const std::string& baseline, const Catalogue* catalogue = nullptr);

/// A cell's difference in its metric's unit with interval, its verdict and what is missing:
/// "+0.86 [0.21, 1.51] better; 1 of 3 missing"; of the baseline its own mean and deviation, and of
/// an attention without a pair, too: "mean 71.20 ± 0.31"; else why there is none.
TableCell domain_cell(const DomainPage& page, const DomainRow& row, std::size_t column);
/// The number alone: "+0.86 [0.21, 1.51]".
std::string cell_text(const DomainPage& page, const DomainRow& row, std::size_t column);
/// "better", "worse", "not shown", "2 of 3 diverged", "standard: 3 of 3 diverged",
/// "incompatible"...; empty of the baseline.
std::string cell_verdict(const DomainPage& page, const DomainRow& row, std::size_t column);
/// "1 of 3 missing" of a cell with a value: seeds that it is not of, because they failed, have no
/// run or no value, here or of the baseline, and did not diverge. Empty where there are none.
std::string missing_text(const DomainPage& page, const DomainRow& row, std::size_t column);
/// "images: clean, quest, seed 2: failed: REASON": every value that the columns lack.
std::vector<std::string> page_absences(const DomainPage& page);
/// Domains of the quality columns, in their order.
std::vector<std::string> quality_domains(const DomainPage& page);
/// What nobody may take the page without: notes that warn, and that it is not fair.
std::vector<std::string> page_warnings(const DomainPage& page);
std::vector<std::string> plain_notes(const DomainPage& page);
/// A domain's effect with its standard error: "+1.23 ± 0.58".
TableCell effect_cell(const DomainRow& row, const std::string& domain);
/// "clean (points)", with the metric's unit and an arrow to its better side.
std::string column_heading(const DomainPage& page, std::size_t column);
/// The same behind the column's domain: "images: clean (accuracy, points) ↑".
std::string column_label(const DomainPage& page, std::size_t column);
/// The summary over domains: "+0.42 [-0.10, 0.94]".
TableCell summary_cell(const DomainRow& row);
/// "1.05".
TableCell ratio_cell(const std::optional<double>& ratio);
/// What is assumed and what is corrected for: a sentence each.
std::vector<std::string> page_assumptions(const DomainPage& page);

}  // namespace attnlab
