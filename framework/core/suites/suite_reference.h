// `reference:` of a suite: a publication's numbers, shown beside the suite's own.
//
//   reference:
//     source: "QUEST, table A8 (one run)"      the heading of their column
//     metric: accuracy                         beside which column it stands; the default
//     values:                                  as the table writes them: accuracies in percent
//       JapaneseVowels: {standard: 98.38, quest: 98.38}
//
// Values of experiments and attentions that the suite does not run are not shown.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/config/node.h"

namespace attnlab {

struct SuiteReference {
  std::string source;
  std::string metric = "accuracy";
  std::map<std::string, std::map<std::string, double>> values;  ///< by experiment and attention

  /// Empty where the publication has none.
  std::optional<double> find(const std::string& experiment, const std::string& attention) const;
};

/// @param section   the value of `reference`
/// @param problems  every problem is appended: unknown keys, no source, values that are no numbers
SuiteReference read_reference(const Node& section, std::vector<std::string>& problems);

}  // namespace attnlab
