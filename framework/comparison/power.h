// How many seeds a difference needs: the power of the paired tests, with the spread that finished
// runs have.
//
//   paired t      d = difference / sd of the pairs' differences; n pairs give Student's noncentral
//                 distribution of n - 1 degrees of freedom and noncentrality d sqrt(n)
//   Wilcoxon      the same with n * 3 / pi: its asymptotic relative efficiency to the t test where
//                 differences are normal (for no distribution below 0.864)
//   permutation   the same as the t test: its asymptotic relative efficiency is 1
//
// The last two also need so many pairs that their smallest p-value reaches the level
// (`fewest_pairs`). Sources: Owen, The power of Student's t-test, JASA 60 (1965); Hodges and
// Lehmann, Annals of Mathematical Statistics 27 (1956); Hoeffding, the same 23 (1952); for the use
// of the efficiency in n: Faul et al., Behavior Research Methods 39 (2007), G*Power.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/comparison/comparison.h"

namespace attnlab {

/// Power of the two-sided paired t test. @param effect  mean difference over standard deviation
/// @param pairs  more than 1; need not be whole. @param level  in (0, 1)
double paired_t_power(double effect, double pairs, double level);

/// Whether any larger number of pairs can reach the level: not where signs are drawn.
bool more_pairs_reach(PairedTest test, double level);

/// The fewest pairs with which a test has the power; empty where a million are too few, and where
/// neither so few that all signs are looked at nor more (`more_pairs_reach`) are enough.
std::optional<std::int64_t> pairs_for(PairedTest test, double effect, double level, double power);

/// The smallest effect that so many pairs show with the power; empty where they can show none.
std::optional<double> detectable_effect(PairedTest test, std::int64_t pairs, double level,
                                        double power);

/// The upper limit of a standard deviation that `count` values gave, with confidence 0.8: by the
/// chi-squared distribution. With it in the place of the deviation itself, a plan made from so few
/// values has the power it states in four of five cases.
/// Source: Browne, Statistics in Medicine 14 (1995). @param count  at least 2
double upper_deviation(double deviation, std::int64_t count);

/// Two attentions on one experiment.
struct PowerRow {
  std::string experiment, attention, other;
  Summary differences;  ///< attention minus other, over pairs of one seed
  double upper = 0;     ///< `upper_deviation` of it
  std::string gap;      ///< why nothing is known: too few pairs, or no spread
  /// Seeds at the level of one test, and at that of the first step of Holm's correction; with the
  /// deviation and with its upper limit. Empty: more than a million, or none (`pairs_for`).
  std::optional<std::int64_t> seeds, seeds_at_most, corrected, corrected_at_most;
  std::optional<double> detectable;  ///< difference, in the metric's own scale, with these pairs
};

struct PowerReport {
  CompareOptions options;
  MetricInfo metric;
  double difference = 0;  ///< that matters, in the unit that people read: points
  double power = 0.8;
  std::int64_t comparisons = 1;  ///< that the correction counts once every cell has runs
  std::vector<PowerRow> rows;    ///< each pair of attentions, by experiment
  bool fair = true;              ///< else runs differ in more than the attention
};

/// @param difference  above 0, as `difference_unit` has it: 0.5 points of accuracy
/// @param power       in (0, 1)
/// @throws ConfigError for other numbers, and where experiments are judged by different metrics.
PowerReport power_report(const Comparison& comparison, double difference, double power);
std::string power_text(const PowerReport& report);
std::string power_json(const PowerReport& report);

}  // namespace attnlab
