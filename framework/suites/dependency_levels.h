// Runs of a suite that begin with the parameters of others: they wait for those, and mean them as
// the suite has them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/suites/cell.h"

namespace attnlab {

/// By experiment of a suite, the one of it that it begins with (`init.experiment`): a point of a
/// grid begins with the same point. Empty where that is none of the suite's.
std::map<std::string, std::string> sources_in(const std::vector<Cell>& cells);

/// The cells in waves: what a cell of one begins with (`init.experiment`), if the suite has it, is
/// in a wave before. Within a wave the order stays.
/// @throws ConfigError where experiments begin with each other.
std::vector<std::vector<const Cell*>> dependency_levels(const std::vector<Cell>& cells);

/// Has cells that begin with others of the suite begin with those as they are here: what the suite
/// changes (`set`, `grid`, `match`) counts for both. A source that the suite does not run is meant
/// as its own file says.
/// @param root  where the cells are filed
/// @throws as `waves_of`.
void begin_with_each_other(std::vector<Cell>& cells, const std::string& root);

}  // namespace attnlab
