// Where configurations of another machine read their data.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "framework/config/node.h"

namespace attnlab {

/// Whole paths that a run's configuration reads data from: those in `dataset:`, and in what its
/// evaluations set there.
std::set<std::string> data_paths(const Node& config);

/// A folder or file of another machine, and the one that has its data here.
struct MovedPath {
  std::string there, here;
};

/// @param words  "THERE=HERE" each
/// @throws ConfigError for another form, and where HERE does not exist.
std::vector<MovedPath> parse_moved_paths(const std::vector<std::string>& words);

/// "KEY=VALUE" for each of these paths that is a moved one or lies below one; of several such, the
/// longest counts. (`over:` of an evaluation holds none: its values are parts of names, and a name
/// has no slash.)
std::vector<std::string> moved_keys(const Node& config, const std::vector<MovedPath>& moved);

/// A text of JSON in which the paths of here are those of there again.
std::string with_paths_of_there(std::string json, const std::vector<MovedPath>& moved);

}  // namespace attnlab
