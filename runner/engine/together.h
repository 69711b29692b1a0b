// Several processes that carry out one command's runs together: what they must agree in.
#pragma once

#include <memory>
#include <vector>

#include "framework/train/world.h"
#include "runner/engine/run_jobs.h"

namespace attnlab {

/// The processes that this one was started with; alone where it was started by itself.
/// @throws ConfigError where they cannot meet.
std::shared_ptr<World> world_of_this_process();

/// That so many processes can share out each run, and that all of them name the same runs in the
/// same state. @throws ConfigError with the place of `train.parts`, or naming who differs in what.
void check_together(World& world, const std::vector<RunJob>& jobs);

/// That all processes have the run's configuration, plugins, data and framework, and make the same
/// numbers, before its first step. @throws ConfigError naming who has another one of which.
void check_same_run(World& world, const RunJob& job, const BuiltRun& run);

/// That this process sees the folder that the first one has made. A network's disk may show it
/// late. @throws FileError.
void check_sees_folder(const World& world, const RunJob& job);

}  // namespace attnlab
