// A publication's numbers, to stand beside one's own.
#pragma once

#include <map>
#include <string>

namespace attnlab {

struct PublishedNumbers {
  std::string source;               ///< the heading of their column: "QUEST, table A8 (one run)"
  std::string metric = "accuracy";  ///< what they are numbers of
  /// By experiment and attention, as the publication prints them: "98.40" is an accuracy in
  /// percent.
  std::map<std::string, std::map<std::string, std::string>> values;

  /// Null where the publication has none.
  const std::string* find(const std::string& experiment, const std::string& attention) const;

  /// By how much an attention's number is above the baseline's, with as many decimals as they have:
  /// "+7.18". Empty where the publication does not have both.
  std::string difference(const std::string& experiment, const std::string& attention,
                         const std::string& baseline) const;
};

}  // namespace attnlab
