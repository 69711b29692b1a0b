// A comparison of attentions: the same experiments and seeds, paired, tested, corrected, ranked.
//
//   each experiment and attention   mean, sample deviation, Student's interval, costs
//   each against the baseline       paired by seed: difference, interval, test, effect sizes
//   on request, the same paired by example (example_tests.h)
//   all experiments together        Friedman's test, Nemenyi's critical difference; settings of one
//                                   experiment are one (settings.h)
//
// What is not there has a typed reason. docs/comparison.md says how to read it.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "framework/comparison/example_tests.h"
#include "framework/comparison/ranks.h"
#include "framework/comparison/statistics.h"
#include "framework/config/options.h"
#include "framework/document/text.h"
#include "framework/manifest/discovery.h"
#include "framework/runs/absence.h"
#include "framework/runs/run_records.h"

namespace attnlab {

/// The `compare:` section of a suite, and the options of `attnlab compare`.
struct CompareOptions {
  std::string test = "wilcoxon";
  std::string pair = "seed";
  std::string correct = "holm";
  double level = 0.05;
  std::string metric = "headline";
  std::string better = "auto";
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("test", test, one_of("wilcoxon", "t", "permutation"), "the paired test, two-sided");
    v("pair", pair, one_of("seed", "example"),
      "seed: runs with one seed are pairs; example: answers to one example are pairs, too");
    v("correct", correct, one_of("holm", "none"), "correction for several comparisons");
    v("level", level, range(1e-6, 0.5), "significance level; intervals have confidence 1 - level");
    v("metric", metric,
      "what is compared: a metric's name, or headline: the metric that each experiment's task is "
      "judged by");
    v("better", better, one_of("auto", "higher", "lower"),
      "which values of the metric are better; auto: as the task states");
  }
};

/// Checks a `compare:` section. @throws ConfigError with every problem.
CompareOptions compare_options(const Node& section);

/// One seed of an experiment and attention.
struct SeedValue {
  std::int64_t seed = 0;
  std::optional<double> value;
  Gap gap;  ///< where there is no value
};

/// An attention against the baseline on one experiment.
struct Contrast {
  Summary difference;                ///< attention minus baseline, over pairs
  std::optional<Interval> interval;  ///< of the mean difference
  std::optional<double> dz, rank_biserial;
  /// Whether the attention lies above the baseline as the test sees it: by ranks for Wilcoxon's, of
  /// which the mean may say otherwise. Empty: as the mean says.
  std::optional<bool> above;
  std::optional<PairedResult> test;
  double adjusted_p = 1;     ///< after correction; where there is a test
  bool significant = false;  ///< adjusted_p is not above the level
  Gap gap;                   ///< why there is no test
};

struct ComparisonRow {
  std::string experiment, attention;
  MetricInfo metric;  ///< what is compared; its direction is settled where any seed has a value
  std::vector<SeedValue> seeds;
  Summary summary;
  std::optional<Interval> interval;
  Costs costs;                                 ///< means over the runs that are done
  std::map<std::string, Summary> evaluations;  ///< the headline of each entry: "fog/accuracy"
  Gap gap;                                     ///< why no seed has a value
  std::optional<Contrast> contrast;            ///< empty for the baseline itself

  /// Whether the difference to the baseline, as the test sees it, is an improvement.
  bool improves() const;
};

/// Ranks over the experiments in which every ranked attention has a value.
struct Ranking {
  std::vector<std::string> attentions, experiments;  ///< settings of one experiment stand here once
  FriedmanResult test;
  double critical_difference = 0;
};

struct Comparison {
  CompareOptions options;
  std::string baseline;
  std::string metric;  ///< its name; "headline" where experiments are compared by different ones
  std::map<std::string, MetricInfo> metrics;         ///< by experiment
  MetricBook book;                                   ///< what the runs say of all their metrics
  std::vector<std::string> experiments, attentions;  ///< the baseline first
  std::map<std::string, std::string> settings;       ///< by experiment, what it is a setting of
  std::vector<ComparisonRow> rows;
  std::int64_t tests = 0;               ///< how many the correction counts
  std::vector<ExampleTest> by_example;  ///< with `pair: example`
  std::optional<Ranking> ranking;
  std::string no_ranking;             ///< why there is none
  std::vector<std::string> left_out;  ///< experiments and attentions that the ranking leaves out
  std::size_t runs = 0, values = 0;   ///< what the proof of fairness looked at
  std::vector<ConfigDifference> differences;
  /// The suites' `reference:` numbers of this metric; those of one source are one entry.
  std::vector<PublishedNumbers> published;
  std::vector<std::string> evaluations;   ///< columns of the rows' `evaluations`
  std::vector<ConfigDifference> matched;  ///< what `match:` adjusted: part of the attention
  std::vector<TunedAttention> tuned;      ///< how the suites' `tune:` chose values, of the rows
  std::vector<std::string> notes;

  /// What an experiment is a setting of: itself unless `settings` says otherwise.
  const std::string& setting(const std::string& experiment) const {
    const auto found = settings.find(experiment);
    return found == settings.end() ? experiment : found->second;
  }
};

/// The metric of all experiments; empty where they are compared by different ones.
std::optional<MetricInfo> common_metric(const Comparison& comparison);
/// Whether one of some experiments is judged by a share of its runs: their spread is Wilson's
/// interval.
bool any_shares_of_runs(const Comparison& comparison, const std::vector<std::string>& experiments);
/// "accuracy (higher is better)", or each metric with its experiments.
std::string metric_phrase(const Comparison& comparison);

/// What so few pairs cannot show ("5 paired seeds cannot go below p = 0.0625..."); empty where the
/// level can be reached. @param comparisons  how many tests there will be in all.
std::string reach_note(const CompareOptions& options, std::int64_t pairs, std::int64_t comparisons);

/// The test for runs that are planned, where nobody names one: Wilcoxon's where so many pairs can
/// reach the level, else the paired t test, which takes differences for normal. Chosen by numbers
/// of runs alone, not by values. @param comparisons  as `reach_note`
std::string test_for_plan(const CompareOptions& options, std::int64_t pairs,
                          std::int64_t comparisons);

/// @param baseline   a label; empty: what the suites say, else "standard"; of one attention alone
///                   that one.
/// @param catalogue  where it is given, cells without a run are composed to see whether the
///                   attention fits; else they are `no_run`.
/// @throws ConfigError for an unknown baseline or metric, with candidates, and for a metric whose
///         better direction no run recorded and `options` do not say.
Comparison compare_runs(const RunCollection& collection, const CompareOptions& options,
                        const std::string& baseline, const Catalogue* catalogue = nullptr);

/// The costs that any run recorded, without the compared metric.
std::vector<MetricInfo> recorded_costs(const Comparison& comparison);

/// What a reader may conclude: "better", "worse", "not shown", "out of reach", or the word for why
/// there is no test. @param row  not the baseline's
std::string verdict_text(const Comparison& comparison, const ComparisonRow& row);
/// Which test, corrected how, at which level.
std::string test_sentence(const Comparison& comparison);

/// What nobody may take a comparison without, where runs differ in more than the attention.
inline constexpr const char* kNotFair = "NOT A FAIR COMPARISON: more than the attention differs.";
std::vector<std::string> difference_lines(const std::vector<ConfigDifference>& differences);
/// That the comparison is fair, or kNotFair with all differences; what `match:` gave.
/// @param joined  as Document::paragraph has it
void write_proof(const Comparison& comparison, Document& out, bool joined = false);

/// The best mean of an experiment, and the best that does not look equal to it; null without two.
struct Podium {
  const ComparisonRow* first = nullptr;
  const ComparisonRow* second = nullptr;
  /// kBest, kSecond or nothing. @param row  of the same experiment
  unsigned mark(const ComparisonRow& row) const;
};
/// By experiment.
std::map<std::string, Podium> podiums_of(const Comparison& comparison);

/// By an experiment's name.
using ShownExperiments = std::function<bool(const std::string&)>;
/// A row for each experiment and attention: mean, interval, what is published, costs.
/// @param table  its caption and ID
void write_values(const Comparison& comparison, const ShownExperiments& shows, Table table,
                  Document& out);
/// A row for each difference to the baseline: interval, effect sizes, test, verdict. Nothing, and
/// false, without any.
bool write_contrasts(const Comparison& comparison, const ShownExperiments& shows, Table table,
                     Document& out);

/// The tries that chose values before the seeds ran; nothing without `tune:`.
void write_tuning(const std::vector<TunedAttention>& tuned, Document& out);

/// @param svg  the diagram of ranks; empty where no picture can be shown
void write_ranking(const Comparison& comparison, const std::string& svg, Document& out);

std::string comparison_title(const Comparison& comparison);
/// All but the title.
void write_comparison(const Comparison& comparison, Document& out);
std::string comparison_text(const Comparison& comparison, TableStyle style);
std::string comparison_json(const Comparison& comparison);

}  // namespace attnlab
