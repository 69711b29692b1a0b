// What a report shows as one experiment. Of a grid of many points that is not each point: runs are
// pooled over all points, and over those that share a value of one axis.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "framework/runs/run_records.h"

namespace attnlab {

/// Runs that a report shows as one experiment.
struct Slice {
  std::string name;                 ///< "vit"; "quest_toy, all 150 points"; "quest_toy, lr=0.001"
  std::string base;                 ///< the experiment; of a grid the one that it varies
  std::string axis, value;          ///< "lr", "0.001"; empty unless points of one value are pooled
  std::size_t points = 0;           ///< how many of a grid are in it; 0: an experiment or one point
  std::vector<std::size_t> runs{};  ///< places in the collection, in its order
};

/// A grid: an experiment and the points at which it ran.
struct Grid {
  std::string base;
  std::size_t points = 0;
  /// Each axis with its values in the order of the suite's file: {"lr", {"0.0005", "0.001"}}.
  std::vector<std::pair<std::string, std::vector<std::string>>> axes{};
  std::vector<std::string> pool{};  ///< axes that runs are pooled by: those with several values
  bool apart = false;               ///< points have slices of their own, too
};

struct Slices {
  std::vector<Slice> all;
  std::vector<Grid> grids;  ///< of more than one point
  /// The point of a grid to what it holds: {"lr", "0.001"}. Points stand here whether or not they
  /// have a slice of their own.
  std::map<std::string, SuitePoint> points;

  const Slice* find(const std::string& name) const;
  /// Whether every experiment is a point of a grid.
  bool only_points() const;
  /// The slice of all points of a grid, or of those with a value of an axis; null without one.
  const Slice* of_grid(const std::string& base, const std::string& axis = "",
                       const std::string& value = "") const;
  /// What a grid varies, or the experiment itself.
  const std::string& base_of(const std::string& experiment) const;
};

/// How many rows of points, each with each attention, a report shows beside what is pooled.
constexpr std::size_t kMostPointRows = 60;

/// Experiments by name; a grid has its pooled slices there, and each point after them where points
/// and attentions make no more than `kMostPointRows` rows.
Slices slices_of(const RunCollection& collection);

}  // namespace attnlab
