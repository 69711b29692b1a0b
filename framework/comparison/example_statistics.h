// Statistics of two models on the same examples.
//
//   McNemar   of the b + c examples that one model alone has right, each is the first's or the
//             second's like a fair coin under H0: p = min(1, 2 P(X <= min(b, c))), X of
//             Binomial(b + c, 1/2). The exact conditional test, not the mid-p: never too small.
//   bootstrap examples are drawn with replacement, as many as there are, and their mean difference
//             is taken, `kBootstrapDraws` times. The interval has the percentiles of these means,
//             and p = min(1, 2 (1 + the smaller number of means <= 0 and >= 0) / (draws + 1)).
//
// Both tests are two-sided and take examples as independent draws.
// Sources: McNemar, Psychometrika 12 (1947); Efron and Tibshirani, An Introduction to the Bootstrap
// (1993), chapters 13 and 16.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/document/document.h"

namespace attnlab {

inline constexpr std::int64_t kBootstrapDraws = 10000;

/// McNemar's exact test. @param first, second  examples that one of two models alone has right
/// @returns p; 1 where both counts are 0. @throws Error for negative numbers.
double mcnemar_exact(std::int64_t first, std::int64_t second);

struct BootstrapResult {
  double mean = 0;    ///< of all differences, weighted
  Interval interval;  ///< of it, by percentiles
  double p_value = 1;
};

/// The paired bootstrap over examples. Draws are of a fixed stream: equal input, equal output.
/// Cost: `kBootstrapDraws` random numbers per example.
/// @param differences  of each example, finite   @param weights  of each in the mean, above 0
/// @param confidence   of the interval, in (0, 1)
/// @throws Error for lists that are empty or of two lengths, and for numbers outside these ranges.
BootstrapResult paired_bootstrap(const std::vector<double>& differences,
                                 const std::vector<double>& weights, double confidence);

}  // namespace attnlab
