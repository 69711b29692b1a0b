#include "framework/comparison/until_width.h"

#include <algorithm>
#include <limits>

#include "framework/comparison/quantities.h"
#include "framework/runs/metric_text.h"

namespace attnlab {

std::vector<std::int64_t> looks_until(std::int64_t first, std::int64_t most) {
  std::vector<std::int64_t> looks = {first};
  while (looks.back() < most) {
    const std::int64_t now = looks.back();
    looks.push_back(std::min(most, now + std::max<std::int64_t>(1, now / 4)));
  }
  return looks;
}

std::optional<WidestInterval> widest_interval(const Comparison& comparison) {
  std::optional<WidestInterval> widest;
  for (const ComparisonRow& row : comparison.rows) {
    if (!row.contrast || row.contrast->difference.count == 0) continue;
    const std::optional<Interval>& interval = row.contrast->interval;
    const bool spread = interval && interval->high > interval->low;
    const double width = spread ? (interval->high - interval->low) * metric_scale(row.metric)
                                : std::numeric_limits<double>::infinity();
    if (widest && width <= widest->width) continue;
    widest = {row.experiment, row.attention, width, difference_unit(row.metric)};
  }
  return widest;
}

}  // namespace attnlab
