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
};

}  // namespace attnlab
