// What `attnlab suite` and `attnlab sweep` have in common: identity, launching, table.
#pragma once

#include <functional>
#include <string>

#include "framework/suites/suite.h"
#include "runner/arguments.h"

namespace attnlab {

/// Adds the options that both commands have.
void add_suite_options(Usage& usage);

/// "attnlab suite 'seeds=[0]'": what repeats the command in a shell.
std::string command_text(const std::string& command, const Words& words);

/// Loads the cells, as the fallback says where `use_fallback` is set.
using LoadSuite = std::function<Suite(bool use_fallback)>;

/// Runs what is left to run, or says what would be, and writes the table.
/// @param command  what repeats it
/// @returns an exit code.
int run_suite(const LoadSuite& load, const Arguments& arguments, const std::string& command,
              const Catalogue& catalogue);

}  // namespace attnlab
