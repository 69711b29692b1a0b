// Metrics that only the order of scores decides.
//
//   roc_auc   P(score of a positive > score of a negative), equal scores count one half
//   average_precision   sum over thresholds (R_n - R_{n-1}) P_n, equal scores one threshold
//   rank      1 + how many candidates score higher + half of those that score the same
//
// Scores that are not a number count as lower than all others. Numbers as scikit-learn's
// roc_auc_score and average_precision_score, which OGB's evaluator takes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace attnlab {

/// An example as a binary metric sees it.
struct Scored {
  double score = 0;
  bool positive = false;
};

/// Empty where there are no positives, or no negatives. Cost: O(n log n).
std::optional<double> roc_auc(std::vector<Scored> examples);
std::optional<double> average_precision(std::vector<Scored> examples);

/// The rank of a score among candidates that it does not stand among itself.
double rank_among(double score, const std::vector<double>& candidates);

}  // namespace attnlab
