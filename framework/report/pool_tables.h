// Tables of a grid's pooled runs, for every format: attentions in rows; in
// columns the metrics over all points, or the values of one axis.
#pragma once

#include <string>
#include <vector>

#include "framework/report/report.h"

namespace attnlab {

struct PoolColumn {
  std::string heading;
  MetricInfo metric;
  std::size_t slice = 0;
};

struct PoolTable {
  std::string caption;
  std::string axis;  ///< empty: over all points
  std::vector<PoolColumn> columns;
};

/// Over all points; then for each axis that is pooled, each of `pool_metrics`
/// by its values.
std::vector<PoolTable> pool_tables(const Report& report, const Grid& grid);

/// A slice's runs with an attention; null without any.
const PooledCell* find_cell(const Report& report, std::size_t slice, const std::string& attention);

/// Of the runs that are done; null where none has the metric.
const Summary* find_summary(const Report& report, const PoolColumn& column,
                            const std::string& attention);

/// " (2 of 3)" behind a mean over fewer runs than an attention has in that slice; else empty.
/// @param runs_stand_there  the row has `runs_text`: what that says is not said again
std::string fewer_runs_text(const Report& report, const PoolColumn& column,
                            const std::string& attention, bool runs_stand_there = false);

/// "750 of 750": runs that are done, of all.
std::string runs_text(const PooledCell* cell);

/// How a grid's numbers are to be read, in one or two sentences.
std::string pool_note(const Report& report);

}  // namespace attnlab
