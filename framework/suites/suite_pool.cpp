#include "framework/suites/suite_pool.h"

#include <fmt/format.h>

#include <map>

#include "framework/base/text.h"

namespace attnlab {
namespace {

/// Base experiment, value of the axis and attention, each by its place in its own order.
using Key = std::tuple<std::size_t, std::size_t, std::size_t>;

/// What goes into one row.
struct Member {
  std::vector<const Cell*> cells;
  std::map<Absence, std::int64_t> absences;
};

/// Items in the order in which they come.
class Order {
 public:
  std::size_t operator()(const std::string& item) {
    const auto [found, is_new] = places_.emplace(item, items_.size());
    if (is_new) items_.push_back(item);
    return found->second;
  }
  const std::string& operator[](std::size_t place) const { return items_[place]; }

 private:
  std::map<std::string, std::size_t> places_;
  std::vector<std::string> items_;
};

SuitePool pool_by(const Suite& suite, const std::string& axis) {
  std::map<std::string, const SuitePoint*> points;
  Order bases, values, attentions;
  for (const SuitePoint& point : suite.points) {
    points[point.experiment] = &point;
    bases(point.base);
    values(point.value_of(axis));
  }
  for (const std::string& attention : suite.attentions) attentions(attention);
  std::map<Key, Member> members;
  const auto member = [&](const std::string& experiment, const std::string& attention) -> Member& {
    const SuitePoint& point = *points.at(experiment);
    return members[{bases(point.base), values(point.value_of(axis)), attentions(attention)}];
  };
  for (const Cell& cell : suite.cells) {
    member(cell.experiment.name, cell.experiment.attention.label).cells.push_back(&cell);
  }
  for (const AbsentCell& cell : absent_cells(suite)) {
    ++member(cell.experiment, cell.attention).absences[cell.gap.kind];
  }
  SuitePool pool{axis, {}, {}};
  for (const auto& [key, one] : members) {
    const auto [base, value, attention] = key;
    pool.values.push_back(values[value]);
    pool.rows.push_back(row_over(one.cells, bases[base], attentions[attention]));
    for (const auto& [absence, count] : one.absences) pool.rows.back().absences[absence] += count;
  }
  return pool;
}

}  // namespace

std::vector<SuitePool> pools_of(const Suite& suite) {
  std::vector<SuitePool> pools;
  if (suite.points.empty()) return pools;
  pools.push_back(pool_by(suite, ""));
  for (const std::string& axis : suite.pool) pools.push_back(pool_by(suite, axis));
  return pools;
}

std::string points_text(const Suite& suite) {
  std::vector<std::string> axes;
  for (const auto& [word, value] : suite.points.front().values) axes.push_back(word);
  return fmt::format("{} {} ({})", suite.points.size(),
                     suite.points.size() == 1 ? "point" : "points", join(axes, ", "));
}

}  // namespace attnlab
