// What a run ran on: machine, libraries, plugins, data.
#pragma once

#include <string>

#include "framework/train/run.h"

namespace attnlab {

/// JSON: processor, cores that this process may use, memory, operating system.
std::string machine_json();

/// JSON for environment.json. Cost: a forward pass of one example, whose FLOPs it counts.
std::string environment_json(const BuiltRun& run);

}  // namespace attnlab
