// A finished run, opened to be asked.
#pragma once

#include "framework/train/run.h"

namespace attnlab {

/// The run's parts, with the parameters of its checkpoint, ready to evaluate.
/// @throws as `build_run` and `load_model` do.
BuiltRun open_run(const RunFolder& folder, Registry& registry);

}  // namespace attnlab
