// `reference:` of a suite: a publication's numbers, shown beside the suite's own.
//
//   reference:
//     source: "QUEST, table A8 (one run)"      the heading of their column
//     metric: accuracy                         beside which column it stands; the default
//     values:                                  as the table writes them: accuracies in percent
//       JapaneseVowels: {standard: 98.38, quest: 98.38}
//
// Values of experiments and attentions that the suite does not run are not shown. Numbers of
// several metrics, or publications, are a list of such sections.
#pragma once

#include <string>
#include <vector>

#include "framework/config/node.h"
#include "framework/runs/published.h"

namespace attnlab {

/// @param section   the value of `reference`: a map, or a list of them
/// @param problems  every problem is appended: unknown keys, no source, values that are not numbers
std::vector<PublishedNumbers> read_references(const Node& section,
                                              std::vector<std::string>& problems);

}  // namespace attnlab
