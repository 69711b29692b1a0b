#include "framework/report/pooling.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "framework/runs/metric_text.h"

namespace attnlab {
namespace {

constexpr std::size_t kBins = 40;
/// Percentages that spread over less than this get bins of their own range: 40 of 0 to 100 % would
/// hold them all in one.
constexpr double kNarrow = 0.25;

/// Values by name, over runs that are done.
using Values = std::map<std::string, std::vector<double>>;

void add_finite(const std::map<std::string, double>& numbers, Values& out) {
  for (const auto& [name, value] : numbers) {
    if (std::isfinite(value)) out[name].push_back(value);
  }
}

PooledCell cell_of(std::size_t slice, const std::string& attention,
                   const std::vector<const RunRecord*>& runs) {
  PooledCell cell{slice, attention, static_cast<std::int64_t>(runs.size()), 0, 0, {}, {}};
  Values metrics, costs;
  for (const RunRecord* run : runs) {
    if (!run->done()) continue;
    ++cell.done;
    cell.not_finite += run->not_finite().empty() ? 0 : 1;
    add_finite(run->status.metrics, metrics);
    add_finite(run->costs, costs);
  }
  for (const auto& [name, values] : metrics) cell.metrics[name] = summary_of(values);
  for (const auto& [name, values] : costs) cell.costs[name] = summary_of(values).mean;
  return cell;
}

/// A slice's runs by attention.
std::map<std::string, std::vector<const RunRecord*>> by_attention(
    const std::vector<RunRecord>& runs, const Slice& slice) {
  std::map<std::string, std::vector<const RunRecord*>> out;
  for (const std::size_t at : slice.runs) out[runs[at].attention].push_back(&runs[at]);
  return out;
}

struct Range {
  double low = INFINITY, high = -INFINITY;
};

/// Where each metric of each experiment or grid lies.
std::map<std::pair<std::string, std::string>, Range> ranges_of(const std::vector<RunRecord>& runs,
                                                               const Slices& slices,
                                                               const MetricBook& book) {
  std::map<std::pair<std::string, std::string>, Range> ranges;
  for (const RunRecord& run : runs) {
    if (run.status.state != RunState::done) continue;
    for (const auto& [name, value] : run.status.metrics) {
      if (!std::isfinite(value)) continue;
      Range& range = ranges[{slices.base_of(run.experiment), name}];
      range.low = std::min(range.low, value);
      range.high = std::max(range.high, value);
    }
  }
  std::erase_if(ranges, [&](const auto& one) {
    return !(one.second.low < one.second.high) || is_share_of_runs(book.shared(one.first.second));
  });
  for (auto& [key, range] : ranges) {
    const bool percent = is_share(book.shared(key.second)) && range.low >= 0 && range.high <= 1;
    if (percent && range.high - range.low >= kNarrow) range = {0, 1};
  }
  return ranges;
}

std::vector<std::int64_t> counts_of(const std::vector<double>& values, const Range& range) {
  std::vector<std::int64_t> counts(kBins, 0);
  for (const double value : values) {
    // The margin puts 0.3, a little below three tenths in binary, into the bin that begins there.
    const double place = (value - range.low) / (range.high - range.low) * kBins + 1e-9;
    ++counts[std::min(kBins - 1, static_cast<std::size_t>(std::max(0.0, place)))];
  }
  return counts;
}

}  // namespace

std::vector<PooledCell> pooled_cells(const std::vector<RunRecord>& runs, const Slices& slices) {
  std::vector<PooledCell> out;
  for (std::size_t i = 0; i < slices.all.size(); ++i) {
    for (const auto& [attention, own] : by_attention(runs, slices.all[i])) {
      out.push_back(cell_of(i, attention, own));
    }
  }
  return out;
}

std::vector<Histogram> histograms_of(const std::vector<RunRecord>& runs, const Slices& slices,
                                     const MetricBook& book) {
  const auto ranges = ranges_of(runs, slices, book);
  std::vector<Histogram> out;
  for (std::size_t i = 0; i < slices.all.size(); ++i) {
    for (const auto& [attention, own] : by_attention(runs, slices.all[i])) {
      Values metrics;
      for (const RunRecord* run : own) {
        if (run->status.state == RunState::done) add_finite(run->status.metrics, metrics);
      }
      for (const auto& [name, values] : metrics) {
        const auto range = ranges.find({slices.all[i].base, name});
        if (range == ranges.end() || std::ssize(values) < kFewestInHistogram) continue;
        out.push_back({i, attention, name, range->second.low, range->second.high,
                       counts_of(values, range->second)});
      }
    }
  }
  return out;
}

std::vector<std::string> pool_metrics(const std::vector<PooledCell>& cells, const MetricBook& book,
                                      const std::string& metric) {
  std::set<std::string> shares;
  for (const PooledCell& cell : cells) {
    for (const auto& [name, summary] : cell.metrics) {
      if (is_share_of_runs(book.shared(name))) shares.insert(name);
    }
  }
  if (shares.empty()) return {metric};
  std::vector<std::string> out;
  if (shares.erase(metric) > 0) out.push_back(metric);
  const std::vector<std::string> others = book.in_order(shares);
  out.insert(out.end(), others.begin(), others.end());
  return out;
}

}  // namespace attnlab
