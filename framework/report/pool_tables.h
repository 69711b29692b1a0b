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

/// The same as it is printed, with "(2 of 3)" where it is over fewer runs than an attention has in
/// that slice. Empty where none has the metric.
std::optional<Quantity> pool_quantity(const Report& report, const PoolColumn& column,
                                      const std::string& attention);

/// @param with_runs  a table over all points says how many runs are done: not each cell again
Table table_of(const Report& report, const PoolTable& pool, bool with_runs = true);

/// How a grid's numbers are to be read, in one or two sentences.
std::string pool_note(const Report& report);

}  // namespace attnlab
