// Final metrics of each slice and attention: means with intervals, and distributions over runs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "framework/comparison/statistics.h"
#include "framework/report/slices.h"

namespace attnlab {

/// One attention's runs in a slice. Numbers are over those that are done.
struct PooledCell {
  std::size_t slice = 0;  ///< its place among the slices
  std::string attention;
  std::int64_t runs = 0, done = 0;
  std::int64_t not_finite = 0;  ///< of those that are done: with a number that counts nowhere
  std::map<std::string, Summary> metrics;
  Costs costs;  ///< means
};

/// How often a final metric fell where. The range is that of all attentions in all slices of one
/// experiment or grid, cut into equal bins; the last one holds its upper edge.
struct Histogram {
  std::size_t slice = 0;
  std::string attention, metric;
  double low = 0, high = 1;
  std::vector<std::int64_t> counts;
};

/// By slice, then attention; cells without runs are left out.
std::vector<PooledCell> pooled_cells(const std::vector<RunRecord>& runs, const Slices& slices);

/// Fewer finished runs than this have no distribution worth a picture.
constexpr std::int64_t kFewestInHistogram = 10;

/// Of every metric that varies, but for shares of runs, which are 0 or 1.
std::vector<Histogram> histograms_of(const std::vector<RunRecord>& runs, const Slices& slices,
                                     const MetricBook& book);

/// The metrics that a grid's tables show: shares of runs where there are any, `metric` first where
/// it is one, in the order in which runs recorded them; without shares `metric` alone.
std::vector<std::string> pool_metrics(const std::vector<PooledCell>& cells, const MetricBook& book,
                                      const std::string& metric);

}  // namespace attnlab
