// Statistics of paired comparisons: spread, paired tests, correction, effect sizes.
//
//   Wilcoxon signed rank  W+: sum of the ranks of |d_i| with d_i > 0; signs are coins under H0
//   paired t              t = mean(d) / (sd(d) / sqrt(n)), n - 1 degrees of freedom
//   sign-flip permutation |mean(s_i d_i)| over all signs s: differences, not ranks
//
// All tests are two-sided, take the differences of pairs (one per seed), and ask whether their
// distribution is symmetric about zero (the t test: whether the mean of normal ones is zero).
// Sources: Wilcoxon 1945; Streitberg and Röhmel 1986 (exact with ties); Phipson and Smyth 2010
// (sampled permutations); Holm 1979; Kerby 2014 (rank-biserial correlation).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/document/document.h"

namespace attnlab {

/// Mean and spread of a metric over seeds.
struct Summary {
  std::int64_t count = 0;
  double mean = 0;
  double deviation = 0;  ///< with n - 1; 0 for one seed

  /// The deviation as it is reported: not a number for one seed, which has none.
  double sd() const { return count > 1 ? deviation : std::numeric_limits<double>::quiet_NaN(); }
};

Summary summary_of(const std::vector<double>& values);

/// Student's interval of the mean; empty for fewer than two values.
/// @param confidence  e.g. 0.95. @throws Error outside (0, 1).
std::optional<Interval> confidence_interval(const Summary& summary, double confidence = 0.95);

/// Wilson's score interval of a share: of `successes` among `count` trials. Within [0, 1], and of
/// some width for 0 and for all of them, where Student's has none. Empty without trials.
/// Source: Wilson 1927. @throws Error outside 0 <= successes <= count, or confidence in (0, 1).
std::optional<Interval> wilson_interval(double successes, std::int64_t count,
                                        double confidence = 0.95);

/// Makes equal what differs by rounding alone: values next to the smallest of their group become
/// that one. Ties must be found as such, and 0.9 - 0.8 is not 0.4 - 0.3 in binary.
/// @param scales  the size of the numbers that each value was computed from: two values are one
///                where they differ by no more than 2^-40 of the smaller scale of the two. A huge
///                value among others changes nothing for those.
std::vector<double> merge_near(const std::vector<double>& values,
                               const std::vector<double>& scales);

/// The largest |x|; 0 of none.
double largest_size(const std::vector<double>& values);

/// a_i - b_i, with sizes that are equal but for rounding made equal and zeros made zero.
/// @throws Error for lists of different lengths and for values that are not finite.
std::vector<double> paired_differences(const std::vector<double>& a, const std::vector<double>& b);

/// Ranks from 1 (smallest); equal values share the mean of their ranks.
std::vector<double> average_ranks(const std::vector<double>& values);

enum class PairedTest { wilcoxon, t, permutation };

/// "wilcoxon", "t", "permutation".
std::string_view name_of(PairedTest test);
/// @throws ConfigError with a suggestion for another word.
PairedTest parse_paired_test(const std::string& name);

struct PairedResult {
  std::int64_t used = 0;  ///< pairs that the test looked at: Wilcoxon's leaves out zeros
  double statistic = 0;   ///< W+ of Wilcoxon, t, or the mean difference
  double p_value = 1;     ///< two-sided
  bool exact = true;      ///< false: a normal approximation, or sampled signs
};

/// Zeros are left out before ranking (Wilcoxon's own treatment); ties share mean ranks. The p-value
/// is exact given the ranks, ties included, up to 200 pairs; beyond, normal with the variance
/// corrected for ties and a continuity correction. Without any non-zero difference p is 1.
PairedResult wilcoxon_signed_rank(const std::vector<double>& differences);

/// Empty for fewer than two pairs and where the differences do not vary.
std::optional<PairedResult> paired_t(const std::vector<double>& differences);

/// All 2^n signs up to 20 pairs; beyond, 100 000 signs of a fixed stream with the observed one
/// counted among them.
PairedResult sign_flip(const std::vector<double>& differences);

/// Any of the three. Empty for fewer than two pairs, and where the test is not defined.
std::optional<PairedResult> paired_test(PairedTest test, const std::vector<double>& differences);

/// The smallest p-value that so many pairs can give, whatever the differences: 2^(1-n), and 0 for
/// the t test. Where `sign_flip` draws signs it is not below the observed one's share of them. 1
/// for fewer than two pairs.
double smallest_p_value(PairedTest test, std::int64_t pairs);

/// The fewest pairs whose smallest p-value, times the number of tests that Holm's correction
/// multiplies it by, is not above `level`. 0: no number of pairs is enough.
/// @throws Error for a level outside (0, 1).
std::int64_t fewest_pairs(PairedTest test, double level, std::int64_t comparisons = 1);

/// Holm's step-down adjusted p-values, in the order given.
std::vector<double> holm(const std::vector<double>& p_values);

/// Cohen's d of paired differences: mean over sample deviation. Empty where that is not defined.
std::optional<double> cohen_dz(const std::vector<double>& differences);

/// (W+ - W-) / (W+ + W-), in [-1, 1]: the matched-pairs rank-biserial correlation. Empty without a
/// non-zero difference.
std::optional<double> rank_biserial(const std::vector<double>& differences);

}  // namespace attnlab
