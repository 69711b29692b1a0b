// What is wrong with a composition, gathered so that everything is said at once.
#pragma once

#include <string>
#include <vector>

#include "framework/base/error.h"

namespace attnlab {

/// A line each.
using Problems = std::vector<std::string>;

/// Adds "file:line:column: what"; `what` alone where the place is in no file.
void add_problem(Problems& problems, const Place& place, const std::string& what);

/// Adds the lines of an error's text but those of a place that something was found at before: where
/// composing went wrong, what else is said follows from that.
void add_elsewhere(Problems& problems, const Problems& before, const std::string& text);

}  // namespace attnlab
