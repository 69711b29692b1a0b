// The order of a suite's runs: a run that begins with another run's parameters waits for it.
#pragma once

#include <vector>

#include "framework/suites/cell.h"

namespace attnlab {

/// The cells in waves: what a cell of one begins with (`init.experiment`), if the suite has it, is
/// in a wave before. Within a wave the order stays.
/// @throws ConfigError where experiments begin with each other.
std::vector<std::vector<const Cell*>> waves_of(const std::vector<Cell>& cells);

}  // namespace attnlab
