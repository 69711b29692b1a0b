// Ranks of several treatments over several blocks: Friedman's test and Nemenyi's critical
// difference.
//
//   chi2 = (k - 1) sum_j (sum_i R_ij - N c)^2 / (sum_ij R_ij^2 - N k c^2),  c = (k + 1) / 2
//   F = (N - 1) chi2 / (N (k - 1) - chi2)
//   CD = q_alpha sqrt(k (k + 1) / (6 N)),  q_alpha: studentized range over sqrt(2)
//
// Treatments are attentions, blocks are experiments. Sources: Friedman 1937; Iman and Davenport
// 1980; Nemenyi 1963; Demšar, Statistical comparisons of classifiers over multiple data sets,
// JMLR 7 (2006), which this follows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace attnlab {

struct FriedmanResult {
  std::vector<double> mean_ranks;  ///< of each treatment; 1 is the smallest value
  double chi_squared = 0;          ///< corrected for ties
  double chi_squared_p = 1;        ///< with k - 1 degrees of freedom
  double f = 0;                    ///< Iman and Davenport's; infinite where all blocks agree
  double f_p = 1;                  ///< with k - 1 and (k - 1)(N - 1) degrees of freedom
  /// Over all orders within blocks; empty where there are too many of them.
  std::optional<double> exact_p;

  /// The exact p-value where there is one, else Iman and Davenport's.
  double p_value() const { return exact_p.value_or(f_p); }
};

/// @param blocks  one row a block, one value a treatment. Smaller values get smaller ranks, so a
///                metric of which more is better comes negated.
/// @throws Error for fewer than two blocks or treatments, and for rows of different lengths.
FriedmanResult friedman(const std::vector<std::vector<double>>& blocks);

/// P(range of k independent standard normal values <= q): the studentized range with infinitely
/// many degrees of freedom. @param k  at least 2.
double studentized_range_cdf(double q, std::int64_t k);
/// The q of which that is `probability`, in (0, 1).
double studentized_range_quantile(double probability, std::int64_t k);

/// How far apart the mean ranks of two of `treatments` must lie, over `blocks`, to differ at
/// `level` (two-sided, all pairs together).
double nemenyi_difference(std::int64_t treatments, std::int64_t blocks, double level);

/// Treatments in the order of their mean ranks, and the largest groups of neighbours that lie
/// within the critical difference: first and last position of each, in that order. Groups of one
/// are left out.
struct RankGroups {
  std::vector<std::size_t> order;
  std::vector<std::pair<std::size_t, std::size_t>> groups;
};
RankGroups rank_groups(const std::vector<double>& mean_ranks, double critical_difference);

/// The critical-difference diagram as text: an axis of ranks, a line a treatment, a bar for each
/// group that is not told apart, and the critical difference to scale.
std::string rank_diagram(const std::vector<std::string>& names,
                         const std::vector<double>& mean_ranks, double critical_difference);

}  // namespace attnlab
