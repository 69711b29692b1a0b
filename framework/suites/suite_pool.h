// A suite's runs pooled over the points of its `grid:`, for tables that say more than a row a
// point.
#pragma once

#include <string>
#include <vector>

#include "framework/suites/suite.h"

namespace attnlab {

/// Rows over all points, or over those that share a value of one axis.
struct SuitePool {
  std::string axis;                 ///< "lr"; empty: over all points
  std::vector<std::string> values;  ///< of the axis, one per row: "0.001"
  /// `experiment` is the one that the grid varies. Numbers are over all runs that are done.
  std::vector<SuiteRow> rows;
};

/// Over all points, then by each axis of `Suite::pool`; values in the order of the grid. Empty
/// without a grid.
std::vector<SuitePool> pools_of(const Suite& suite);

/// "150 points (lr, weight_decay)".
std::string points_text(const Suite& suite);

}  // namespace attnlab
