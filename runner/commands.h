// The subcommands. Each takes the words after its name and returns an exit code.
#pragma once

#include "runner/arguments.h"

namespace attnlab {

int list_command(const Words& words);
int describe_command(const Words& words);
int validate_command(const Words& words);
int config_command(const Words& words);
int suite_command(const Words& words);

/// `run` and `eval`: loads the engine (and with it LibTorch) and hands over.
int engine_command(const std::string& command, const Words& words);

}  // namespace attnlab
