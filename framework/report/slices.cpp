#include "framework/report/slices.h"
#include "framework/base/add_once.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace attnlab {
namespace {

/// The grid of one base; `wanted` are the axes that its suite pools by.
Grid grid_of(const std::string& base, const std::vector<const SuitePoint*>& points,
             const std::vector<std::string>& wanted) {
  Grid grid{base, points.size(), {}, {}, false};
  for (const auto& [axis, value] : points.front()->values) {
    std::vector<std::string> values;
    for (const SuitePoint* point : points) add_once(values, point->value_of(axis));
    const bool pooled = std::count(wanted.begin(), wanted.end(), axis) > 0;
    if (values.size() > 1 && pooled) grid.pool.push_back(axis);
    grid.axes.emplace_back(axis, std::move(values));
  }
  return grid;
}

/// Runs by experiment, as places in the collection.
using Places = std::map<std::string, std::vector<std::size_t>>;

Slice pooled(const std::string& name, const std::string& axis, const std::string& value,
             const std::vector<const SuitePoint*>& points, const Places& places) {
  Slice slice{name, points.front()->base, axis, value, 0, {}};
  for (const SuitePoint* point : points) {
    if (!axis.empty() && point->value_of(axis) != value) continue;
    ++slice.points;
    const std::vector<std::size_t>& runs = places.at(point->experiment);
    slice.runs.insert(slice.runs.end(), runs.begin(), runs.end());
  }
  return slice;
}

void add_grid(const Grid& grid, const std::vector<const SuitePoint*>& points, const Places& places,
              std::vector<Slice>& out) {
  const std::string all = fmt::format("{}, all {} points", grid.base, grid.points);
  out.push_back(pooled(all, "", "", points, places));
  for (const auto& [axis, values] : grid.axes) {
    if (std::count(grid.pool.begin(), grid.pool.end(), axis) == 0) continue;
    for (const std::string& value : values) {
      out.push_back(
          pooled(fmt::format("{}, {}={}", grid.base, axis, value), axis, value, points, places));
    }
  }
  if (!grid.apart) return;
  for (const SuitePoint* point : points) {
    out.push_back({point->experiment, grid.base, "", "", 0, places.at(point->experiment)});
  }
}

}  // namespace

const Slice* Slices::find(const std::string& name) const {
  for (const Slice& slice : all) {
    if (slice.name == name) return &slice;
  }
  return nullptr;
}

bool Slices::only_points() const {
  return std::all_of(all.begin(), all.end(), [&](const Slice& slice) {
    return slice.points > 0 || points.count(slice.name) > 0;
  });
}

const Slice* Slices::of_grid(const std::string& base, const std::string& axis,
                             const std::string& value) const {
  for (const Slice& slice : all) {
    if (slice.points > 0 && slice.base == base && slice.axis == axis && slice.value == value)
      return &slice;
  }
  return nullptr;
}

const std::string& Slices::base_of(const std::string& experiment) const {
  const auto found = points.find(experiment);
  return found == points.end() ? experiment : found->second.base;
}

Slices slices_of(const RunCollection& collection) {
  Places places;
  std::set<std::string> attentions;
  for (std::size_t i = 0; i < collection.runs.size(); ++i) {
    places[collection.runs[i].experiment].push_back(i);
    attentions.insert(collection.runs[i].attention);
  }
  Slices out;
  std::map<std::string, std::vector<const SuitePoint*>> bases;
  std::vector<std::string> pool;
  for (const SuiteRecord& suite : collection.suites) {
    pool.insert(pool.end(), suite.pool.begin(), suite.pool.end());
    for (const SuitePoint& point : suite.points) {
      if (places.count(point.experiment) == 0) continue;
      if (out.points.emplace(point.experiment, point).second) bases[point.base].push_back(&point);
    }
  }
  std::erase_if(bases, [](const auto& base) { return base.second.size() < 2; });
  std::erase_if(out.points, [&](const auto& point) { return bases.count(point.second.base) == 0; });
  for (const auto& [experiment, runs] : places) {
    if (bases.count(out.base_of(experiment)) > 0) continue;
    out.all.push_back({experiment, experiment, "", "", 0, runs});
  }
  for (const auto& [base, points] : bases) {
    Grid& grid = out.grids.emplace_back(grid_of(base, points, pool));
    grid.apart = points.size() * attentions.size() <= kMostPointRows;
    add_grid(grid, points, places, out.all);
  }
  return out;
}

}  // namespace attnlab
