// A point of a suite's grid.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace attnlab {

/// An experiment of a suite that is a point of its `grid:`.
struct SuitePoint {
  std::string experiment;                                   ///< "vit,lr=0.001"
  std::string base;                                         ///< "vit"
  std::vector<std::pair<std::string, std::string>> values;  ///< {"lr", "0.001"}

  /// Empty: of an axis that it has not.
  std::string value_of(const std::string& axis) const {
    for (const auto& [word, value] : values) {
      if (word == axis) return value;
    }
    return "";
  }
};

}  // namespace attnlab
