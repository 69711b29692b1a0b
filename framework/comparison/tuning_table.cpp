#include "framework/comparison/tuning_table.h"

#include <algorithm>

#include "framework/base/add_once.h"
#include "framework/base/text.h"
#include "framework/comparison/quantities.h"

namespace attnlab {
namespace {

TableCell score_cell(const TunedAttention& one, const std::string& point) {
  const auto found = std::find_if(one.tries.begin(), one.tries.end(),
                                  [&](const TuningTry& item) { return item.point == point; });
  if (found == one.tries.end()) return {};
  if (!found->score) return {std::string(name_of(found->state)), kAbsent};
  const bool chosen = one.chosen && one.tries[*one.chosen].point == point;
  return {quantity_of(one.metric, *found->score), chosen ? kBest : 0U};
}

}  // namespace

Table tuning_table(const std::vector<TunedAttention>& attentions, const std::string& caption) {
  Table table{caption, {"experiment", "attention", {"judged by", false, "validation split"}}};
  std::vector<std::string> points;
  for (const TunedAttention& one : attentions) {
    for (const TuningTry& item : one.tries) add_once(points, item.point);
  }
  for (const std::string& point : points) table.columns.emplace_back(point, /*number=*/true);
  table.columns.emplace_back("chosen");
  table.columns.emplace_back("tries took", /*number=*/true);
  for (const TunedAttention& one : attentions) {
    std::vector<TableCell>& row = table.rows.emplace_back(1, TableCell(one.experiment));
    row.emplace_back(one.attention);
    const bool judged = !one.metric.name.empty();
    row.push_back(judged ? TableCell(metric_heading(one.metric)) : TableCell());
    for (const std::string& point : points) row.push_back(score_cell(one, point));
    row.push_back(one.chosen ? TableCell(one.tries[*one.chosen].point) : TableCell());
    row.emplace_back(duration(one.seconds()));
  }
  return table;
}

}  // namespace attnlab
