// Drawings as SVG in the page's own colours: classes and currentColor, no styles of their own.
#pragma once

#include <string>

#include "framework/comparison/comparison.h"

namespace attnlab {

/// The critical-difference diagram of Demšar (JMLR 7, 2006): mean ranks on an axis, the best on the
/// left, and a bar over attentions that are not told apart.
std::string rank_svg(const Ranking& ranking);

/// Mean differences to the baseline with their intervals, a line for each experiment and attention.
/// A filled mark is a significant one; a cross is a publication's difference. Empty where there is
/// none, or more than are readable: `differences_in` above `kMostDifferences`.
/// @param metric  of the experiments that are drawn: different ones have no scale in common
std::string difference_svg(const Comparison& comparison, const MetricInfo& metric);

inline constexpr std::size_t kMostDifferences = 60;
/// How many differences to the baseline there are in a metric.
std::size_t differences_in(const Comparison& comparison, const MetricInfo& metric);

}  // namespace attnlab
