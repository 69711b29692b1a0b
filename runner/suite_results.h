// What a suite writes beside its runs when they are done: table, comparison, page.
#pragma once

#include <string>

#include "framework/manifest/discovery.h"
#include "framework/suites/suite.h"

namespace attnlab {

/// What an earlier call wrote beside its table is of that.
void remove_older_results(const Suite& suite);

/// @returns whether it is complete, as it says itself: files that could not be read for a moment
///          must not make the exit code another one.
bool write_table(const Suite& suite, const std::string& command);

/// Where the suite compares.
void write_comparison(const Suite& suite, const Catalogue& catalogue);

/// The page over domains, where the suite has one.
void write_page(const Suite& suite, const std::string& command, const Catalogue& catalogue);

}  // namespace attnlab
