// What `attnlab compare` and `attnlab report` ask in the same words: baseline, metric, test.
#pragma once

#include "framework/runs/run_records.h"
#include "runner/arguments.h"

namespace attnlab {

/// Adds --baseline, --metric, --test, --correct, --level and --better.
/// @param metrics  whether one metric is chosen for all
void add_compare_options(Usage& usage, bool metrics = true);
/// Adds --pair.
void add_pair_option(Usage& usage);

/// find_runs() of what is to be compared. @throws ConfigError also where it finds none.
RunCollection runs_to_compare(const Words& folders);

/// The suites' `compare:` sections, or the test that all of them planned, with the command line's
/// options over them.
/// @throws ConfigError where the suites compare in different ways.
Node compare_section(const RunCollection& collection, const Arguments& arguments);

}  // namespace attnlab
