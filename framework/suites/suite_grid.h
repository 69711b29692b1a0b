// `grid:` of a suite: each of its experiments at every point of a grid, as in a sweep.
//
//   grid:
//     lr: [1.0e-4, 1.0e-3]                 a key may be short where only one ends with it
//     weight_decay: range(0, 0.1, 0.05)    or logspace(...)
//     zip: {dim: [32, 64], heads: [2, 4]}  side by side
//   pool: [lr]                             tables over all points, and for each value of lr
//
// The points are experiments of the suite, called "vit,lr=0.001,weight_decay=0".
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "framework/config/node.h"
#include "framework/manifest/discovery.h"
#include "framework/suites/grid.h"

namespace attnlab {

struct SuiteGrid {
  std::string name = "grid";            ///< of the section: `tune` has such lists, too
  std::vector<SweepAxis> axes;          ///< empty: no grid
  std::map<std::string, Place> places;  ///< of each axis's source
};

/// One point, for one experiment.
struct GridVariant {
  std::string suffix;  ///< of the experiment's name: ",lr=0.001,weight_decay=0"; empty: no grid
  GridPoint words;     ///< {"lr", "0.001"}, {"weight_decay", "0"}
  std::vector<Node> changes;  ///< to merge into the experiment, in this order
};

/// @param section   the value of `grid`
/// @param problems  every problem is appended: no map, keys that a grid cannot vary, wrong values
/// @param name      of the section
SuiteGrid read_grid(const Node& section, std::vector<std::string>& problems,
                    const std::string& name = "grid");

/// All points, with full keys; one without any change where there is no grid.
/// @param with  the experiment's composition with these "key=value" arguments
/// @throws ConfigError with every key that is none of the experiment's, or doubtful.
std::vector<GridVariant> variants_of(
    SuiteGrid grid, const std::function<Node(const std::vector<std::string>&)>& with,
    const Catalogue& catalogue);

/// The axes that `pool:` names, by the words that points' names have ("lr"); all of them where it
/// is not given.
/// @param words     of the points
/// @param problems  every word that is none of them is appended, with candidates
std::vector<std::string> read_pool(const Node* section, const std::vector<std::string>& words,
                                   std::vector<std::string>& problems);

}  // namespace attnlab
