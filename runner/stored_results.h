// Stored results of a suite, as `attnlab suite` uses and tells of them.
#pragma once

#include <map>
#include <string>

#include "framework/suites/suite.h"

namespace attnlab {

/// Takes stored results for cells that are to be run, where everything agrees, and says on standard
/// error how many and why not others. Those that were taken before and whose evaluations are of
/// other plugins by now are stale.
/// @param dry_run  marks the cells and writes nothing
void take_stored(Suite& suite, const Catalogue& catalogue, const Rerun& rerun, bool dry_run);

/// Says on standard error what the suite warns of; nothing without a warning.
void warn_of(const Suite& suite);

/// Says once, on standard error, which data and plugins are not on this machine, what to put where,
/// and which experiments are left out.
/// @param missing  what is missing with the names of experiments, in the words of who missed it
void say_missing(const std::map<std::string, std::string>& missing);

}  // namespace attnlab
