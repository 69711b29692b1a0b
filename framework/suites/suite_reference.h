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

#include "framework/manifest/schema.h"
#include "framework/runs/published.h"

namespace attnlab {

struct ReferenceKeys {
  std::string source, metric = "accuracy";
  NoOptions values;  // of keys that the user chooses: `published_numbers`
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("source", source, filled(), "where the numbers stand: the heading of their column");
    v("metric", metric, "metric of these numbers: the column that they stand beside");
    v("values", values, filled(),
      "by experiment and attention, as the table writes them (98.4 for 98.4 %)");
  }
};

/// @param sections  the value of `reference`, with every default
/// @param problems  values that are not numbers are appended
std::vector<PublishedNumbers> published_numbers(const Node& sections,
                                                std::vector<std::string>& problems);

}  // namespace attnlab
