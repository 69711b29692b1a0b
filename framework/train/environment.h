// What a run ran on: machine, libraries, plugins, data.
#pragma once

#include <string>

#include "framework/train/run.h"

namespace attnlab {

/// JSON for environment.json.
std::string environment_json(const BuiltRun& run);

}  // namespace attnlab
