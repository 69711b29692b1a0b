// Going on until a difference is known well enough: seeds are added until Student's interval of
// each mean difference to the baseline is at most so wide.
//
// Whoever looks several times and stops as soon as an interval is narrow stops where the spread
// looks small by chance: such intervals miss more often than they say. Here the numbers of seeds at
// which one looks are fixed before the first, and of K looks each has the level alpha / K: its
// intervals have confidence 1 - alpha / K, and its tests reject at alpha / K. By Bonferroni's
// inequality the interval of a comparison misses at any of the looks, and so at the last, with
// probability alpha at most, whenever one stops. What that costs is seeds: the intervals are wider.
// Sources: Dunn, Multiple comparisons among means, JASA 56 (1961), for intervals by the inequality;
// Armitage, McPherson and Rowe, Repeated significance tests on accumulating data, JRSS A 132
// (1969), for what looking does without it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/comparison/comparison.h"

namespace attnlab {

/// Numbers of seeds at which one looks: each a quarter above the one before, rounded down, but at
/// least one more; the last is `most`. @param first  at most `most`
std::vector<std::int64_t> looks_until(std::int64_t first, std::int64_t most);

/// The least certain difference of a comparison.
struct WidestInterval {
  std::string experiment, attention;
  /// In the unit that people read, points; infinity: there are too few pairs for one, or their
  /// differences are all equal, as of few test examples, and say nothing of a spread.
  double width = 0;
  std::string unit;  ///< "points"; may be empty
};

/// Of all attentions against the baseline that have a value beside one of the baseline's; empty
/// where none has.
std::optional<WidestInterval> widest_interval(const Comparison& comparison);

}  // namespace attnlab
